#!/usr/bin/env bash
# Serve a model with vLLM, as several copies behind one address, each on several GPUs:
#
#   COPIES=2 GPUS=4 examples/vllm/serve.sh Qwen/Qwen2.5-72B-Instruct --max-model-len 8192
#
# Further arguments are passed to vLLM. Each start has a seed of its own: with vLLM's fixed one, a
# server that is restarted would draw the numbers for its first responses again.
#
# Settings and their defaults:
#
#   COPIES=1         data-parallel copies of the model
#   GPUS=1           GPUs that each copy is divided among
#   HOST=127.0.0.1   the address to listen on
#   PORT=8000        the port to listen on
set -euo pipefail
exec vllm serve "$1" --host "${HOST:-127.0.0.1}" --port "${PORT:-8000}" \
  --data-parallel-size "${COPIES:-1}" --tensor-parallel-size "${GPUS:-1}" --seed "$RANDOM" "${@:2}"
