#!/usr/bin/env bash
# Evaluate models, sweep their layers, fine-tune each on its layers, and draw the leaderboard:
#
#   OUT=/shared/study examples/slurm/submit.sh Qwen/Qwen2.5-0.5B-Instruct Qwen/Qwen2.5-1.5B-Instruct
#
# Run it on a login node, in the environment that pragworld is installed in. OUT is a folder that all
# nodes share. The script prints the number and name of each job array. SLURM requeues a job that is
# preempted or whose node fails, and the job resumes.
#
# Settings and their defaults:
#
#   PROCESSES=gpu                        processes of a sweep on each node: one for each GPU, or a number
#   TASKS=pragworld_manual               tasks to evaluate
#   METADATA='{"split": "validation"}'   generated documents to sweep
#   TRAIN='--use_peft --evaluate'        further options of pragworld-train
#   CHAT_TEMPLATE=1                      apply it in all jobs; CHAT_TEMPLATE= for base models
#
# Rerun the command after a failure: finished steps are skipped. Choose another OUT for other settings.
#
# Set what your cluster requires by sbatch's variables, such as SBATCH_PARTITION, SBATCH_GPUS and
# SBATCH_TIMELIMIT.
set -euo pipefail
shopt -s inherit_errexit  # a job that cannot be submitted ends the script
: "${OUT:?set OUT to a folder that all nodes see}" "${1:?name one or more models}"
export OUT=$(realpath -m "$OUT") PROCESSES=${PROCESSES:-gpu} TASKS=${TASKS:-pragworld_manual}
export METADATA=${METADATA:-'{"split": "validation"}'} TRAIN=${TRAIN---use_peft --evaluate}
export CHAT_TEMPLATE=${CHAT_TEMPLATE-1}
jobs=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$OUT/logs"
pragworld-tasks link  # so that lm_eval finds the tasks

# Submit a job as an array of so many tasks, with further options of sbatch, and print its number.
submit() {
  local id
  id=$(sbatch --parsable --array="1-$2" --requeue --open-mode=append --kill-on-invalid-dep=yes \
    --output="$OUT/logs/$1-%a.log" "${@:3}" "$jobs/$1.sbatch" "${models[@]}")
  echo "$id $1" >&2
  echo "$id"
}

models=("$@")
evaluation=$(submit evaluate $#)
sweep=$(submit sweep $#)
submit train $# --dependency="aftercorr:$sweep" >/dev/null
submit board 1 --dependency="afterok:$evaluation:$sweep" >/dev/null
