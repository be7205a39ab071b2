# make eval MODEL=…    pragworld_manual on a model: a name on the Hugging Face hub, or a folder
# make eval            does the installation work? a tiny model and small files, nothing downloaded
# make test            everything that guards the project
# PRAGWORLD_DATA=…     a folder with the released files, for any of them

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

MODEL ?= $(VENV)/tiny-model
TASKS ?= pragworld_manual
BATCH_SIZE ?= 16
# For a model without a chat template: make eval MODEL=… ARGS=
ARGS ?= --apply_chat_template

# Of eval alone: the tests would take the samples for the released files.
ifeq ($(MODEL),$(VENV)/tiny-model)
eval: export PRAGWORLD_DATA ?= tests/samples
endif

.PHONY: setup eval test check

setup: $(VENV)/ready

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(VENV)/tiny-model: $(VENV)/ready examples/tiny_model.py
	$(BIN)/python examples/tiny_model.py $@.partial
	rm -rf $@
	mv $@.partial $@

eval: setup $(filter $(VENV)/tiny-model,$(MODEL))
ifeq ($(MODEL),$(VENV)/tiny-model)
	@echo "No MODEL given: a tiny one with random weights, on $(PRAGWORLD_DATA). Its answers mean nothing."
endif
	$(BIN)/pragworld-tasks link
	$(BIN)/lm_eval --model hf --model_args "pretrained=$(MODEL)" --tasks $(TASKS) \
	  --batch_size $(BATCH_SIZE) --log_samples --output_path results $(ARGS)

test: check
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
