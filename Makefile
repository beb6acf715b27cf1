# make serve              run everything on this machine: http://127.0.0.1:8000
# make serve PORT=9000    ... elsewhere; PORT=0 takes a free port
# make test               unit and pipeline tests on all cores; one file on one: ARGS="-n0 FILE"
# make test-all           before a release: these, slow ones, every family, clients, deploy, chaos;
#                         says how long it took; only what is slow: ARGS="-m slow"
# make clients            real clients of OpenAI, ElevenLabs, Cartesia, Deepgram, Wyoming against a stack
# make fuzz               10,000 malformed requests and messages a protocol: ARGS=, COUNT=
# make check              ruff, mypy --strict, import contract
# make test-deploy        images and compose on this machine's container engine
# make chaos              kill, stop and cut off processes: a table and build/chaos.json. Hours: each
#                         fault 40 times; half an hour: ARGS="--runs 1 --streams 5"
# make soak               5,000 requests of every kind, clients leaving: does anything grow or stay?
# make test-book          100,000 words as one job, processes killed in it: ARGS="--words 1500"
# make fleet              100 listeners on 27 processes, four of which die each minute: ARGS=
# make bench              load against a running stack: URL=, ARGS=
# make voice BUDGET=120   train the default voice, in minutes of one core
# make voice-eval         measure it; make voice-page: listen to it
# make docs               the site, in build/site/html, with pictures and sound: ARGS=--plain
# make goldens            run the official packages; our networks are held to their results: FAMILY=
# make lock               write requirements*.txt anew
# make release            what a release publishes, in build/release, and whether it speaks: TAG=
# make clean
#
# TORCH_INDEX=<url>       where torch comes from; by default the CPU index (0.2 GB) on a machine
#                         without an NVIDIA GPU, the public one (CUDA, 2.7 GB) on one with.
#                         TORCH_INDEX=none: only what pip is configured for

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := serve

# Tests are collected twice as fast where what pytest made of their assertions is kept.
export PYTHONDONTWRITEBYTECODE =
PYTHON ?= python3
PORT ?= 8000
URL ?= http://127.0.0.1:8000
BUDGET ?= 120
PYTHON312 ?= python3.12
PYTHON313 ?= python3.13
TORCH_INDEX ?=
UV ?= 0.13.8
ARGS ?=
TAG ?=

VENV := .venv
BIN := $(VENV)/bin
CLIENTS := .venv-clients
SITE := .venv-docs
MERMAID ?= 12.3.0
CLIENT_STAMPS := $(CLIENTS)/.installed $(patsubst %,$(CLIENTS)/%/.installed,litellm openai-agents openapi wyoming-openai home-assistant node)
# Of what lies in these packages little is ever imported; Python keeps byte code of that by itself.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile
# What tools/torch_index.py chose when the environment was made.
INDEX = $(shell cat $(VENV)/.torch-index 2>/dev/null)
# Every package, found by its pyproject.toml.
SERVING := $(patsubst %/pyproject.toml,%,$(wildcard libs/*/pyproject.toml services/*/pyproject.toml \
  cli/pyproject.toml voices/*/pyproject.toml install/pyproject.toml))
TOOLS := bench training
PACKAGE_FILES := $(SERVING:%=%/pyproject.toml)
TOOL_FILES := $(TOOLS:%=%/pyproject.toml)
GOLDENS := build/goldens

.PHONY: serve test test-all clients fuzz test-deploy check chaos soak test-book fleet bench voice voice-eval voice-page goldens lock docs release clean

serve: $(VENV)/.serving
	exec $(BIN)/antiphon up --port $(PORT) $(ARGS)

test: $(VENV)/.training
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder \
	  -m "not gpu and not clients and not slow" $(ARGS)

test-all: $(VENV)/.training $(CLIENT_STAMPS)
	SECONDS=0; ANTIPHON_CLIENTS=$(CLIENTS) ANTIPHON_TEST_DEPLOY=1 ANTIPHON_FUZZ=500 \
	  $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder -m "not gpu" $(ARGS); \
	$(BIN)/python -m tests.chaos; echo "all of it took $$((SECONDS / 60)) minutes"

test-deploy: $(VENV)/.training
	ANTIPHON_TEST_DEPLOY=1 $(BIN)/python -m pytest tests/deploy $(ARGS)

clients: $(VENV)/.training $(CLIENT_STAMPS)
	ANTIPHON_CLIENTS=$(CLIENTS) $(BIN)/python -m pytest tests/clients $(ARGS)

fuzz: $(VENV)/.training
	ANTIPHON_FUZZ=$(or $(COUNT),10000) $(BIN)/python -m pytest tests/pipeline/gateway/test_fuzz.py $(ARGS)

$(CLIENTS)/.installed: tests/clients/requirements.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet -r $<
	@touch $@

# LiteLLM and wyoming-openai each want another openai than the rest, the Agents SDK other websockets;
# what reads the OpenAPI description wants much that nothing else does.
$(CLIENTS)/litellm/.installed $(CLIENTS)/openai-agents/.installed $(CLIENTS)/openapi/.installed: \
  $(CLIENTS)/%/.installed: tests/clients/%.txt | $(CLIENTS)/.installed
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet -r $<
	@touch $@

$(CLIENTS)/wyoming-openai/.installed: NEEDS := $(PYTHON312)
$(CLIENTS)/wyoming-openai/.installed: OLDEST := 3.12
$(CLIENTS)/home-assistant/.installed: NEEDS := $(PYTHON313)
$(CLIENTS)/home-assistant/.installed: OLDEST := 3.13.2
$(CLIENTS)/wyoming-openai/.installed $(CLIENTS)/home-assistant/.installed: \
  $(CLIENTS)/%/.installed: tests/clients/%.txt | $(CLIENTS)/.installed
	mkdir -p $(@D)
	if $(NEEDS) -c 'import sys; sys.exit(sys.version_info < (*map(int, "$(OLDEST)".split(".")),))'; \
	then $(NEEDS) -m venv $(@D) \
	  && $(@D)/bin/python -m pip --disable-pip-version-check install --quiet -r $<; \
	else echo "$* is left out: it needs Python $(OLDEST) or newer"; fi
	@touch $@

$(CLIENTS)/node/.installed: tests/clients/node/package-lock.json | $(CLIENTS)/.installed
	mkdir -p $(@D)
	cp $(<D)/package*.json $(@D)
	if command -v npm; then npm ci --silent --prefix $(@D); \
	else echo "OpenAI's Node SDK is left out: there is no npm"; fi
	@touch $@

check: $(VENV)/.training
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/unit/test_imports.py

chaos: $(VENV)/.training
	$(BIN)/python -m tests.chaos $(ARGS)

soak: $(VENV)/.training
	$(BIN)/python -m tests.chaos leaving
	$(BIN)/python -m tests.chaos soak $(ARGS)

test-book: $(VENV)/.training
	$(BIN)/python -m tests.chaos books $(ARGS)

fleet: $(VENV)/.training
	$(BIN)/python -m tests.chaos fleet $(ARGS)

bench: $(VENV)/.developing
	$(BIN)/antiphon bench run --url $(URL) --protocol ws $(or $(ARGS),--concurrency 4)

voice: $(VENV)/.training
	$(BIN)/python -m voicetrain.vesper make --budget-minutes $(BUDGET) $(ARGS)

voice-eval: $(VENV)/.training
	$(BIN)/python -m voicetrain.vesper eval $(ARGS)

voice-page: $(VENV)/.training
	$(BIN)/python -m voicetrain.vesper page $(ARGS)

# Each reference in an environment of its own, below $(GOLDENS): they need other versions than ours.
goldens: $(VENV)/.developing
	$(BIN)/python -m tests.parity.make_goldens $(GOLDENS) $(FAMILY) --pip="$(INDEX)"

docs: $(VENV)/.training $(SITE)/.installed
	$(BIN)/python -m tools.site build/site/source $(ARGS)
	mkdir -p build/site/source/javascripts
	cp $(SITE)/package/dist/mermaid.min.js build/site/source/javascripts
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet --strict

$(SITE)/.installed: docs/requirements.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet -r $<
	npm pack --silent --pack-destination $(@D) mermaid@$(MERMAID)
	tar -x -z -C $(@D) -f $(@D)/mermaid-$(MERMAID).tgz package/dist/mermaid.min.js
	@touch $@

release: $(VENV)/.training
	$(BIN)/python -m tools.artifacts build/release --tag "$(TAG)"
	ANTIPHON_TEST_DEPLOY=1 ANTIPHON_WHEELS=build/release/wheels $(BIN)/python -m pytest -n0 tests/deploy/test_wheels.py

lock: $(VENV)/.serving
	$(PIP) uv==$(UV)
	$(BIN)/python -m tools.lock

clean:
	rm -rf $(VENV) $(CLIENTS) $(SITE) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -o -name '*.egg-info' | xargs rm -rf

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; choose one with PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.torch-index: requirements-torch.txt tools/torch_index.py | $(BIN)/python
	@echo "choosing a build of torch"
	@$(BIN)/python tools/torch_index.py --index "$(TORCH_INDEX)" > $@

# Each stamp stands for what is installed, so that a later start installs nothing.
$(VENV)/.serving: requirements.txt $(VENV)/.torch-index $(PACKAGE_FILES) | $(BIN)/python
	@echo "installing into $(VENV) (once, about a minute)"
	$(PIP) --require-hashes -r requirements.txt
	$(PIP) $(INDEX) -r requirements-torch.txt
	$(PIP) --no-deps --no-build-isolation $(SERVING:%=-e ./%)
	$(BIN)/python -m ttscommon.engine.kernels.ahead
	@touch $@

$(VENV)/.developing: requirements-dev.txt $(TOOL_FILES) $(VENV)/.serving
	$(PIP) --require-hashes -r requirements.txt -r requirements-dev.txt
	$(PIP) --no-deps --no-build-isolation $(TOOLS:%=-e ./%)
	@touch $@

# Tests start hundreds of processes, which keep no byte code where PYTHONDONTWRITEBYTECODE is set.
# Some packages bring files that no Python 3 compiles.
$(VENV)/.training: training/requirements.txt $(VENV)/.developing
	$(PIP) --no-deps --require-hashes -r requirements.txt -r requirements-dev.txt -r training/requirements.txt
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@
