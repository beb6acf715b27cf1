# make serve              run everything on this machine: http://127.0.0.1:8000
# make serve PORT=9000    ... elsewhere; PORT=0 takes a free port
# make test               unit and pipeline tests
# make check              ruff, mypy --strict, import contract
# make chaos              kill, stop and cut off processes: a table and build/chaos.json
# make soak               5,000 requests of every kind, clients leaving: does anything grow or stay?
# make bench              load against a running stack: URL=, ARGS=
# make voice BUDGET=90    train the default voice, in minutes
# make voice-eval         measure it
# make lock               write requirements*.txt anew
# make clean
#
# TORCH_INDEX=<url>       an extra package index for torch, e.g. one with CPU-only wheels

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := serve

PYTHON ?= python3
PORT ?= 8000
URL ?= http://127.0.0.1:8000
BUDGET ?= 90
TORCH_INDEX ?=
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
INDEX := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
SERVING := libs/ttscommon services/gateway services/talker services/vocoder cli
TOOLS := bench training
PACKAGE_FILES := $(SERVING:%=%/pyproject.toml)
TOOL_FILES := $(TOOLS:%=%/pyproject.toml)

.PHONY: serve test check chaos soak bench voice voice-eval lock clean

serve: $(VENV)/.serving
	exec $(BIN)/antiphon up --port $(PORT) $(ARGS)

test: $(VENV)/.training
	$(BIN)/python -m pytest -m "not chaos and not gpu" $(ARGS)

check: $(VENV)/.training
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/unit/test_imports.py

chaos: $(VENV)/.training
	$(BIN)/python -m tests.chaos $(ARGS)

soak: $(VENV)/.training
	$(BIN)/python -m tests.chaos.leaving
	$(BIN)/python -m tests.chaos.soak $(ARGS)

bench: $(VENV)/.developing
	$(BIN)/antiphon bench run --url $(URL) --protocol ws $(or $(ARGS),--concurrency 4)

voice: $(VENV)/.training
	$(BIN)/python -m voicetrain make --budget-minutes $(BUDGET) $(ARGS)

voice-eval: $(VENV)/.training
	$(BIN)/python -m voicetrain eval $(ARGS)

lock: $(VENV)/.serving
	$(BIN)/python tools/lock.py

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -o -name '*.egg-info' | xargs rm -rf

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; choose one with PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Each stamp stands for what is installed, so that a later start installs nothing.
$(VENV)/.serving: requirements.txt $(PACKAGE_FILES) | $(BIN)/python
	@echo "installing into $(VENV) (once, some minutes)"
	$(PIP) $(INDEX) -r requirements.txt
	$(PIP) --no-deps --no-build-isolation $(SERVING:%=-e ./%)
	@touch $@

$(VENV)/.developing: requirements-dev.txt $(TOOL_FILES) $(VENV)/.serving
	$(PIP) $(INDEX) -r requirements.txt -r requirements-dev.txt
	$(PIP) --no-deps --no-build-isolation $(TOOLS:%=-e ./%)
	@touch $@

$(VENV)/.training: training/requirements.txt $(VENV)/.developing
	$(PIP) $(INDEX) -r requirements.txt -r requirements-dev.txt -r training/requirements.txt
	@touch $@
