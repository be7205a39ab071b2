#!/usr/bin/env bash
# Serve a model with vLLM, as several copies behind one address, each on several GPUs:
#
#   COPIES=2 GPUS=4 examples/vllm/serve.sh Qwen/Qwen2.5-72B-Instruct
#
# COPIES is the number of data-parallel copies and GPUS the number of GPUs of each. Both are 1 by
# default. Further arguments are passed to vLLM, such as --max-model-len 8192.
set -euo pipefail
exec vllm serve "$1" --host "${HOST:-127.0.0.1}" --port "${PORT:-8000}" \
  --data-parallel-size "${COPIES:-1}" --tensor-parallel-size "${GPUS:-1}" "${@:2}"
