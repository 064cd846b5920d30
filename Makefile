# Two commands matter: `make report` builds the site, `make test` runs the tests. Each sets up what it needs.
#   make report [SOURCE=DIR] [JUDGES=DIR] [FETCH=1]   SOURCE, JUDGES: where the files of the benchmark and the replies
#   of real judges are; FETCH=1: get the pinned commits first
#   make publish [REMOTE=NAME] [BRANCH=gh-pages]   build, check, put the site on a branch; push it to REMOTE if named
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

ifdef JUDGES
export TRACEAUDIT_JUDGES := $(abspath $(JUDGES))
endif
ifdef SOURCE
export TRACEAUDIT_SOURCE := $(abspath $(SOURCE))
endif

.PHONY: help report test bench lint pages check-site publish lock clean

help:
	@sed -n '1,4p' Makefile

# The installer itself comes from the package index, held to the hash in the lock file.
$(READY): requirements.lock pyproject.toml
	@echo "setting up $(VENV) from requirements.lock"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed (PYTHON=...)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@awk '/^uv==/ {on = 1} on {print} on && !/\\$$/ {exit}' requirements.lock > $(VENV)/installer.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/installer.lock
	@$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

report: $(READY)
ifdef FETCH
	@$(BIN)/traceaudit fetch
	@$(BIN)/traceaudit fetch --judges
endif
	@$(BIN)/traceaudit report

test: $(READY)
	@$(BIN)/python -m pytest

bench: $(READY)
	@$(if $(WRITE),TRACEAUDIT_WRITE_BENCHMARKS=1) $(BIN)/python -m pytest tests/bench -o python_files='bench_*.py' -o addopts= -q -s

lint: $(READY)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

# What a renderer calls before and after (see _quarto.yml).
pages: $(READY)
	@$(BIN)/traceaudit build

check-site: $(READY)
	@$(BIN)/traceaudit check-site

publish: $(READY)
	@$(BIN)/traceaudit publish $(if $(REMOTE),--remote $(REMOTE)) $(if $(BRANCH),--branch $(BRANCH))

lock: $(READY)
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --all-extras pyproject.toml -o requirements.lock

clean:
	rm -rf .traceaudit _site report index.ipynb .quarto
