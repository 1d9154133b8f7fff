# `make help` lists the targets. All that is needed beforehand is make and a Python of at least 3.11 with venv.

.DEFAULT_GOAL := help
SHELL := /bin/sh
.DELETE_ON_ERROR:

VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTHON ?=
CANDIDATES := $(PYTHON) python3.13 python3.12 python3.11 python3

.PHONY: help demo test lint fmt type bench docs golden dist smoke clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## Report on a small trace that comes with the project
	$(BIN)/mpg analyze fixtures/train_2rank

test: $(READY) ## Run all tests
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(READY) type ## Check style, types and that the documentation is current
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python docs/generate.py --check

fmt: $(READY) ## Format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

type: $(READY) ## Check the types
	$(BIN)/mypy

bench: $(READY) ## Measure speed and memory on generated traces
	$(BIN)/python tests/bench/bench.py
	$(BIN)/python tests/bench/fleet.py

docs: $(READY) ## Write the generated parts of the documentation
	$(BIN)/python docs/generate.py

golden: $(READY) ## Accept the rendered reports as they are now (look at the diff)
	$(BIN)/python -m pytest -q -k golden --update-golden

dist: $(READY) ## Build the sdist, and the wheel from it
	rm -rf dist
	$(BIN)/python -m build

smoke: dist ## Install the wheel in an environment of its own and use it from another folder
	sh tests/smoke.sh $(BIN)/python

clean: ## Remove everything that was built or installed here
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment is made once, and again whenever pyproject.toml changes. pip learned --group in 25.1.
$(READY): pyproject.toml
	@python=$$(for name in $(CANDIDATES); do \
		"$$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
			&& { echo "$$name"; break; }; done); \
	[ -n "$$python" ] || { echo "error: no Python of at least 3.11 with venv among: $(CANDIDATES)" >&2; \
		echo "hint: install python3.11 (and python3.11-venv where that is a package of its own)," \
			"or name one: make PYTHON=/path/to/python" >&2; exit 1; }; \
	echo "making $(VENV) with $$python"; \
	"$$python" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@
