# make eval            a tiny model made here on pragworld_manual: does the installation work?
# make eval MODEL=…    a real one: a name on the Hugging Face hub, or a folder
# make test            everything that guards the project
# PRAGWORLD_DATA=…     a folder with the released files, for either; make eval downloads them without

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

MODEL ?= $(VENV)/tiny-model
TASKS ?= pragworld_manual
BATCH_SIZE ?= 16
# For a model without a chat template: make eval MODEL=… ARGS=
ARGS ?= --apply_chat_template

.PHONY: setup eval test check

setup: $(VENV)/ready

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(VENV)/tiny-model: $(VENV)/ready examples/tiny_model.py
	@echo "No MODEL: making a tiny one with random weights. Its answers mean nothing."
	$(BIN)/python examples/tiny_model.py $@

eval: setup $(filter $(VENV)/tiny-model,$(MODEL))
	$(BIN)/pragworld-tasks link
	$(BIN)/lm_eval --model hf --model_args pretrained=$(MODEL) --tasks $(TASKS) \
	  --batch_size $(BATCH_SIZE) --log_samples --output_path results $(ARGS)

test: check
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
