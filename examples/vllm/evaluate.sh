#!/usr/bin/env bash
# Evaluate a served chat model on tasks in which it writes its answer, and on tasks that compare
# likelihoods:
#
#   OUT=study examples/vllm/evaluate.sh Qwen/Qwen2.5-72B-Instruct
#
# Rerun it to resume: lm-eval takes the responses so far from OUT/cache, and a kind of tasks that has
# results is left out. Further arguments are passed to lm_eval.
#
# Settings and their defaults:
#
#   SERVER=http://127.0.0.1:8000   the address of the server, for which the script waits
#   CONCURRENT=64                  requests at a time
#   WRITTEN=pragworld              tasks in which the model writes its answer
#   LIKELIHOODS=pragworld_mc       tasks that compare likelihoods
set -euo pipefail
: "${OUT:?set OUT to a folder}"
model=$1
name=${model//\//__}
server=${SERVER:-http://127.0.0.1:8000}
tasks=$(pragworld-tasks path)

# Evaluate tasks with a kind of model and its arguments, unless there are results.
evaluate() {
  local out=$OUT/results/$name/$1 unfinished=$OUT/unfinished/$name/$1
  if [[ -n $(find "$out" -name 'samples_*.jsonl' -print -quit 2>/dev/null) ]]; then
    echo "$out: finished before" >&2
  else
    rm -rf "$out" "$unfinished" && mkdir -p "$OUT/results/$name" "$unfinished" "$OUT/cache"
    lm_eval --model "$1" --include_path "$tasks" --tasks "$2" --apply_chat_template \
      --model_args "model=$model,num_concurrent=${CONCURRENT:-64},$3" \
      --use_cache "$OUT/cache/$name-$1" --log_samples --output_path "$unfinished" "${@:4}"
    mv "$unfinished" "$out"
  fi
}

curl --silent --show-error --fail --retry 1800 --retry-delay 1 --retry-connrefused "$server/health"
evaluate local-chat-completions "${WRITTEN:-pragworld}" "base_url=$server/v1/chat/completions" "${@:2}"
evaluate local-completions "${LIKELIHOODS:-pragworld_mc}" \
  "base_url=$server/v1/completions,tokenizer_backend=huggingface" "${@:2}"
