# Two commands: `make results/table1.csv` and `make test`. Both set up the environment first, from requirements.lock.
# A machine with Python 3.11 (3.11.4 or newer) or 3.12, pip, git and make needs nothing else.

SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
UV := .tools/bin/uv
BIN := .venv/bin
CORES ?= all

.PHONY: help setup test pytest test-slow lint adopt bench findings lock clean FORCE
.DEFAULT_GOAL := help

# jobs and tests start hundreds of processes, each of which would compile the package anew
unexport PYTHONDONTWRITEBYTECODE

help:
	@echo "make results/table1.csv   set up, then make Table 1 at the scale that params.yaml names"
	@echo "make results              set up, then make every table and figure"
	@echo "make adopt                after dvc pull or dvc checkout: what DVC brought counts as made (STAGES=data: a part)"
	@echo "make test                 set up, then lint, check types and run the tests"
	@echo "make test-slow            set up, then the tests that run whole pipelines through Snakemake and DVC, or kill jobs"
	@echo "make lint                 set up, then lint and check types alone"
	@echo "make setup                set up only (.venv, from requirements.lock)"
	@echo "make bench                measure speed against peers, and make one table of it (QUICK=1: small sizes)"
	@echo "make findings             docs/findings from the claims of results that are there"
	@echo "make lock                 resolve requirements.lock anew"

setup: .venv/.ready

$(UV):
	PIP_REQUIRE_VIRTUALENV=0 PIP_USER=0 $(PYTHON) -m pip install --quiet --disable-pip-version-check --target .tools 'uv>=0.9,<1'

# An environment names its folder, and runs the code that lies there. In a moved or copied project it is rebuilt; a link to
# another one is removed, and what it points to stays.
ifneq ($(shell cat .venv/.ready 2>/dev/null),$(CURDIR))
.venv/.ready: FORCE
endif

.venv/.ready: requirements.lock pyproject.toml | $(UV)
	[ "$$(cat $@ 2>/dev/null)" = "$$(pwd -P)" ] || if [ -L .venv ]; then rm .venv; elif [ -e $@ ]; then rm -r .venv; fi
	$(UV) venv --quiet --allow-existing --no-python-downloads --python '>=3.11.4,<3.13' .venv
	$(UV) pip sync --python .venv --quiet --require-hashes --compile-bytecode requirements.lock
	$(UV) pip install --python .venv --quiet --no-deps --no-build-isolation --editable .
	echo "$$(pwd -P)" > $@

# Snakemake, not make, decides what is up to date
results: setup FORCE
	$(BIN)/snakemake all --cores $(CORES)

results/%: setup FORCE
	$(BIN)/snakemake $@ --cores $(CORES)

adopt: setup
	@$(BIN)/python workflow/adopt.py $(STAGES)

# A file stays with one worker, which makes once what its tests share. tests/durations.json says which files start first;
# MEASURE=--measure writes it anew
test: setup
	$(MAKE) -j2 lint pytest

pytest: setup
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(MEASURE) -m "not slow"

test-slow: setup
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(MEASURE) -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/mypy

# QUICK=1: the smallest sensible sizes
bench: setup
	$(BIN)/python bench/every.py $(if $(QUICK),--quick)

findings: setup
	$(BIN)/python docs/make_findings.py

lock: $(UV)
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --no-emit-index-url --group dev --upgrade pyproject.toml --output-file requirements.lock

clean:
	rm -rf .venv .tools

FORCE:
