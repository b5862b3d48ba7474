# One-word targets; `make demo` and `make test` are the two that a newcomer needs. Each sets up what it needs.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_DATA ?= demo-data
.DEFAULT_GOAL := help

.PHONY: help setup demo test soak lint bench lock messages format clean

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.ready ## the virtual environment with locked versions, and what pip cannot bring (as root)

$(VENV)/.ready: requirements.lock pyproject.toml scripts/system_packages.sh scripts/system_packages.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "steelyard needs Python 3.11 or newer; found $$($(PYTHON) --version); name one with make PYTHON=..." >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "this Python has no venv; on Debian: apt-get install python3-venv" >&2; exit 2; }
	@scripts/system_packages.sh scripts/system_packages.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup ## a simulated estate, read through the real readers, then who holds what and how much
	$(BIN)/steelyard demo --data $(DEMO_DATA)

test: setup lint ## everything that must hold
	$(BIN)/python -m pytest -n 2 --dist loadgroup

soak: setup ## ten times as many kill -9 as `make test` has, at chosen moments of imports, rounds, postings and deliveries (about three quarters of an hour)
	STEELYARD_SOAK=10 $(BIN)/python -m pytest tests/app/test_import_crash.py tests/app/test_serving_crash.py tests/app/test_collection_crash.py tests/app/agent/test_agent_crash.py

lint: setup ## style, types and import contracts
	$(BIN)/ruff format --check --quiet src tests bench scripts
	$(BIN)/ruff check --quiet src tests bench scripts
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-cache > $(VENV)/contracts.txt || { cat $(VENV)/contracts.txt; exit 1; }

bench: setup ## ratios against the raw engine, medians of 5 (about a quarter of an hour)
	$(BIN)/python -m bench

format: setup ## rewrite the code in the house format
	$(BIN)/ruff format --quiet src tests bench scripts
	$(BIN)/ruff check --quiet --fix src tests bench scripts

messages: setup ## collect messages for translation and compile the catalogues
	$(BIN)/python scripts/messages.py

lock: setup ## resolve the newest versions that pyproject.toml allows into requirements.lock
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --extra dev --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --upgrade --output-file requirements.lock pyproject.toml

clean: ## remove what the targets above made
	rm -rf $(VENV) $(DEMO_DATA) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
