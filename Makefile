# make eval            the small model that comes with pragworld, on generated dialogues; offline
# make eval MODEL=…    pragworld_manual on a model: a name on the Hugging Face hub, or a folder
# make test            everything that guards the project
# PRAGWORLD_DATA=…     a folder with the released files, for any of them

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

TINY := pragworld_tasks/tiny
MODEL ?= $(TINY)
BATCH_SIZE ?= 16
ifeq ($(MODEL),$(TINY))
TASKS ?= pragworld_generated
eval: export HF_HUB_OFFLINE ?= 1
else
TASKS ?= pragworld_manual
# For a model without a chat template: make eval MODEL=… ARGS=
ARGS ?= --apply_chat_template
endif

.PHONY: setup eval test check

setup: $(VENV)/ready

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

eval: setup
	$(BIN)/pragworld-tasks link
	$(BIN)/lm_eval --model hf --model_args "pretrained=$(MODEL)" --tasks $(TASKS) \
	  --batch_size $(BATCH_SIZE) --log_samples --output_path results $(ARGS)

# Two tests at a time, so a thread for each: more of them get in each other's way.
test: export OMP_NUM_THREADS ?= 1
test: check
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
