#!/usr/bin/env bash
# Collect a served chat model's responses to the sensitivity tasks:
#
#   OUT=study examples/vllm/collect.sh Qwen/Qwen2.5-72B-Instruct
#
# Rerun it to resume. Further arguments are passed to `pragworld-tasks collect`.
#
# Settings and their defaults:
#
#   SERVER=http://127.0.0.1:8000   the address of the server, for which the script waits
#   CONCURRENT=64                  requests at a time
#   TASKS=world_model              tasks that ask for responses
set -euo pipefail
: "${OUT:?set OUT to a folder}"
server=${SERVER:-http://127.0.0.1:8000}
curl --silent --show-error --fail --retry 1800 --retry-delay 1 --retry-connrefused "$server/health"
pragworld-tasks collect --model local-chat-completions --apply_chat_template \
  --model_args "model=$1,num_concurrent=${CONCURRENT:-64},base_url=$server/v1/chat/completions" \
  --tasks "${TASKS:-world_model}" --output_path "$OUT/answers" "${@:2}"
