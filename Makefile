# make eval            Evaluate the small model that comes with pragworld on generated dialogues, offline.
# make eval MODEL=…    Evaluate a model on pragworld_manual: a name on the Hugging Face hub, or a folder.
# make board           Show the runs in results/ as a leaderboard, or without any the released ones.
# make check           Run ruff and mypy.
# make test            Run the checks and all tests.
# make gpu-check       Check sweeps, evaluation and training on a GPU, and write gpu_check.json.
# make docs            Build the documentation in site/. A broken link is an error.
# PRAGWORLD_DATA=…     Use the released files in this folder, with any target.
#
# Each target first creates the environment in .venv, unless it is up to date.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

TINY := pragworld_tasks/tiny
RUNS ?= $(if $(wildcard results/*),results,--demo)
MODEL ?= $(TINY)
BATCH_SIZE ?= 16
ifeq ($(MODEL),$(TINY))
TASKS ?= pragworld_generated
eval: export HF_HUB_OFFLINE ?= 1
else
TASKS ?= pragworld_manual
# If the model has no chat template: make eval MODEL=… ARGS=
ARGS ?= --apply_chat_template
endif

.PHONY: setup eval board test check gpu-check docs

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

board: setup
	$(BIN)/pragworld-tasks board $(RUNS) --out board --overwrite
	$(BIN)/python -m webbrowser -t "file://$(CURDIR)/board/index.html"

# Two tests run at a time, each with one thread: more threads would slow each other down.
test: export OMP_NUM_THREADS ?= 1
# Each module is compiled once, not by every process that the tests start.
test: export PYTHONDONTWRITEBYTECODE =
test: check
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

gpu-check: setup
	$(BIN)/python benchmarks/gpu_check.py --out gpu_check.json

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean
