# Needs Python >= 3.11 with venv, pip and make; everything else is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
JOBS ?= 2

.PHONY: train answers docs test test-slow test-browser test-haswell test-arm check format fuzz mutations benchmark clean help

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 14

.venv/.base: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "anyformer needs Python 3.11 or later, this is " + sys.version.split()[0])'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing anyformer and torch into .venv (a few minutes the first time)"
	@$(PIP) --editable '.[pictures]'
	@touch $@

.venv/.dev: .venv/.base
	@echo "installing what the tests need"
	@$(PIP) --editable '.[dev,hf,pictures]'
	@touch $@

train: .venv/.base  ## train, sample and plot a small model on Python's own standard library
	@$(BIN)/anyformer train recipes/stdlib.toml

answers: .venv/.base  ## answers of `show` and `cost` to every name, shipped with this state of the package: a few minutes
	@$(BIN)/python -m anyformer.cli.shipping

docs: .venv/.base  ## the documents as one site, in build/site; ATLAS=DIRECTORY: with what `anyformer atlas --out` wrote there
	@$(PIP) --editable '.[docs]'
	@$(BIN)/python -m docs.website $(if $(ATLAS),--atlas $(ATLAS))

check: .venv/.dev  ## style and types
	@$(BIN)/ruff check src tests benchmarks
	@$(BIN)/ruff format --check src tests benchmarks
	@$(BIN)/mypy

test: check  ## everything that must hold before a change lands
	@$(BIN)/python -m pytest -n $(JOBS)

test-slow: .venv/.dev  ## the long runs
	@$(BIN)/python -m pytest -m slow

test-browser: .venv/.dev  ## pages in a browser, by axe too; needs Debian's: apt-get install chromium
	@command -v chromium >/dev/null || { echo "no chromium: apt-get install chromium"; exit 1; }
	@$(PIP) playwright axe-playwright-python
	@$(BIN)/python -m pytest -m browser tests/browser

test-haswell: .venv/.dev  ## chosen tests on a processor with AVX2 alone, emulated; needs Debian's: apt-get install qemu-user
	@$(BIN)/python tests/emulated.py haswell

test-arm: .venv/.dev  ## chosen tests on 64-bit ARM, emulated; tests/README.md says what it needs
	@$(BIN)/python tests/emulated.py arm

fuzz: .venv/.dev  ## malformed input of every kind, 48,600 cases from seeds
	@PYTHONPATH=tests:tests/contract $(BIN)/python -m fuzz --output benchmarks/results/fuzz.json

mutations: .venv/.dev  ## 600 one-line mistakes put into the code: which ones the tests notice; goes on where it stopped
	@$(PIP) --editable '.[dev,hf,pictures,mutation]'
	@$(BIN)/python -m benchmarks.mutations --jobs $(JOBS)

format: .venv/.dev  ## rewrite to the house style
	@$(BIN)/ruff check --fix src tests benchmarks
	@$(BIN)/ruff format src tests benchmarks

clean:  ## remove the environment and caches
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
