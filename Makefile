# One environment, .venv: `make demo` puts the light runtime into it, `make serve` adds a web server, `make test` and `make check` add
# what developing needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile # two files at a time; one file's tests share its fixtures
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo serve test check clean

help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile

demo: $(VENV)/.light ## watch a text being translated as it comes in (installs the light runtime: no PyTorch)
	@$(BIN)/bethink translate --watch --repair --rate 200 examples/talk.de.txt

serve: $(VENV)/.serve ## the page and the socket on http://127.0.0.1:8080 (installs the light runtime and the web server)
	@$(BIN)/bethink serve $(ARGS)

test: $(VENV)/.full ## run the tests (installs everything, PyTorch included)
	@$(PYTEST)

check: $(VENV)/.full ## formatting, lint, types, then the tests: the one command before a commit
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(PYTEST)

clean: ## remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "bethink needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1); try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "'$(PYTHON) -m venv' does not work here; on Debian or Ubuntu install it with: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.light: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing bethink into $(VENV) …" >&2
	@$(PIP) -e .
	@touch $@

$(VENV)/.serve: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing bethink and its web server into $(VENV) …" >&2
	@$(PIP) -e '.[serve]'
	@touch $@ $(VENV)/.light

$(VENV)/.full: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing bethink and all it is developed with into $(VENV) …" >&2
	@$(PIP) -e '.[align,convert,dev,serve,train]'
	@touch $@ $(VENV)/.serve $(VENV)/.light
