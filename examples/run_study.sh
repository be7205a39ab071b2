#!/usr/bin/env bash
# Evaluate models, sweep their layers, fine-tune each on its layers, evaluate it again, and draw the
# leaderboard:
#
#   OUT=/study examples/run_study.sh Qwen/Qwen2.5-0.5B-Instruct Qwen/Qwen2.5-1.5B-Instruct
#
# Rerun the same command to resume, also on another machine that sees OUT. OUT may be a mounted
# bucket: commands write to a folder of this machine, and a step's files are copied to OUT once it is
# done. So are the checkpoints of a training. What is lost with a machine is one step, or what was
# trained after the last checkpoint. Choose another OUT for other settings.
#
# Settings and their defaults:
#
#   TASKS=pragworld_manual               tasks to evaluate
#   METADATA='{"split": "validation"}'   generated documents to sweep
#   TRAIN='--use_peft'                   further options of pragworld-train; it stops where no layer
#                                        has evidence, unless they have --layer_selection sign
#   CHAT_TEMPLATE=1                      apply it in all steps; CHAT_TEMPLATE= for base models
set -euo pipefail
: "${OUT:?set OUT to a folder that outlives the machine}" "${1:?name one or more models}"
TASKS=${TASKS:-pragworld_manual} METADATA=${METADATA:-'{"split": "validation"}'}
TRAIN=${TRAIN---use_peft} CHAT_TEMPLATE=${CHAT_TEMPLATE-1}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

# Copy the files of a folder to the one of a name in OUT, and mark them as complete.
keep() {
  rm -rf "${OUT:?}/$2" && mkdir -p "$OUT/$2" && cp -r "$1/." "$OUT/$2" && echo >"$OUT/$2/complete"
}

# Run a command that writes to a folder in $work, and keep that, unless it has been kept before.
step() {
  if [[ -e $OUT/$1/complete ]]; then return; fi
  echo "$(date +%T) $1"
  mkdir -p "$work/$1"
  "${@:2}"
  keep "$work/$1" "$1"
}

# Evaluate a model: a folder for the results, and lm-eval's arguments for it. The results have to be
# there: if lm_eval cannot write them, it only logs that.
evaluate() {
  lm_eval --output_path "$1" --log_samples --model hf --model_args "$2" --include_path "$tasks" \
    --tasks "$TASKS" --batch_size 16 ${CHAT_TEMPLATE:+--apply_chat_template}
  if ! find "$1" -name 'samples_*.jsonl' -size +0 | grep -q . ||
    ! find "$1" -name 'results_*.json' -size +0 | grep -q .; then
    echo "$1: lm_eval wrote no results; see its log" >&2
    return 1
  fi
}

# Sweep a model's layers: a folder for the report, and the model.
sweep() {
  pragworld-interp ablate --model "$2" --split generated --metadata "$METADATA" \
    ${CHAT_TEMPLATE:+--chat-template} --out "$1/layers.json"
}

# Fine-tune a model on its layers, from the last checkpoint in OUT if there is one.
train() {
  local folder=trained/$1 status=0 copying checkpoint
  for checkpoint in "$OUT/checkpoints/$1"/*/complete; do
    if [[ -e $checkpoint ]]; then cp -r "${checkpoint%/*}" "$work/$folder"; fi
  done
  touch "$work/training"
  while [[ -e $work/training ]]; do copy_checkpoint "$1" && sleep 0.5; done &
  copying=$!
  # shellcheck disable=SC2086  # TRAIN holds several options
  pragworld-train --model_name_or_path "$2" --layers "$OUT/layers/$1/layers.json" \
    --output_dir "$work/$folder" --resume_from_checkpoint last \
    ${CHAT_TEMPLATE:+--chat-template} $TRAIN || status=$?
  rm "$work/training"
  wait "$copying" || true
  copy_checkpoint "$1"
  rm -rf "$work/$folder"/checkpoint-*
  return "$status"
}

# Keep the newest checkpoint of a training, unless it has been kept before, and no older ones. The
# state of the trainer is the last file that it writes.
copy_checkpoint() {
  local newest name kept=checkpoints/$1
  newest=$(find "$work/trained/$1" -path '*/checkpoint-*/trainer_state.json' -size +0 | sort -V | tail -n 1)
  name=$(basename "$(dirname "$newest")")
  if [[ -n $newest && ! -e $OUT/$kept/$name/complete ]]; then
    keep "$(dirname "$newest")" "$kept/$name" || return 0 # the training may have removed it meanwhile
    find "$OUT/$kept" -mindepth 1 -maxdepth 1 ! -name "$name" -exec rm -rf {} +
  fi
}

tasks=$(pragworld-tasks path)
for model in "$@"; do
  name=${model//\//__}
  step "results/$name" evaluate "$work/results/$name" "pretrained=$model"
  step "layers/$name" sweep "$work/layers/$name" "$model"
  step "trained/$name" train "$name" "$model"
  rm -rf "${OUT:?}/checkpoints/$name"
  trained=$OUT/trained/$name
  if [[ -e $trained/adapter_config.json ]]; then
    arguments=pretrained=$model,peft=$trained
  else
    arguments=pretrained=$trained
  fi
  step "results/$name-trained" evaluate "$work/results/$name-trained" "$arguments"
done
pragworld-tasks board "$OUT/results" --layers "$OUT"/layers/*/layers.json --out "$work/board"
keep "$work/board" board
