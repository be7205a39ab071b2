#!/usr/bin/env bash
# Serve a model with vLLM, as several copies behind one address, each on several GPUs:
#
#   COPIES=2 GPUS=4 examples/vllm/serve.sh Qwen/Qwen2.5-72B-Instruct --max-model-len 8192
#
# COPIES is the number of data-parallel copies, and GPUS how many each is divided among. Both are 1 by
# default. Further arguments are passed to vLLM. Only this machine can reach the server, unless you
# pass --host 0.0.0.0. Each start has a seed of its own: with vLLM's fixed one, a server that is
# restarted would draw the numbers for its first responses again.
set -euo pipefail
exec vllm serve "$1" --host 127.0.0.1 --data-parallel-size "${COPIES:-1}" \
  --tensor-parallel-size "${GPUS:-1}" --seed "$RANDOM" "${@:2}"
