#!/usr/bin/env bash
# Run a study as a job on the Hugging Face Hub:
#
#   hf buckets create pragworld-study
#   BUCKET=me/pragworld-study examples/hub_jobs/study.sh Qwen/Qwen2.5-0.5B-Instruct
#
# Run it in a checkout of pragworld, which is copied to the job, with your token in HF_TOKEN. The Hub
# makes up to five attempts. Rerun the command if the job reaches its time limit. Both resume from the
# bucket.
#
# Settings and their defaults:
#
#   JOB='--flavor l4x1 --timeout 24h'   machine, time and further options of `hf jobs run`
#
# and those of examples/run_study.sh, as in JOB='--flavor a100-large --timeout 2d --env TASKS=pragworld_manual_mc'.
set -euo pipefail
: "${BUCKET:?set BUCKET to NAMESPACE/NAME}" "${1:?name one or more models}"
checkout=$(cd "$(dirname "$0")/../.." && pwd)
# A study needs one set of versions, which the first attempt keeps in the bucket.
# shellcheck disable=SC2016  # expands in the job, where the models are its arguments
run='set -e; versions=/study/constraints.txt; touch "$versions"
uv pip install --system --constraint "$versions" "/pragworld[train]"
[[ -s $versions ]] || uv pip freeze --system | grep -v ^pragworld > "$versions"
bash /pragworld/examples/run_study.sh "$@"'
# shellcheck disable=SC2086  # JOB holds several options
exec hf jobs run --name pragworld-study --attempts 5 --secrets HF_TOKEN --env OUT=/study \
  --volume "hf://buckets/$BUCKET:/study" --volume "$checkout:/pragworld" \
  ${JOB---flavor l4x1 --timeout 24h} \
  ghcr.io/astral-sh/uv:python3.12-bookworm bash -c "$run" run "$@"
