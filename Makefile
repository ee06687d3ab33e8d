# Every verb makes or refreshes .venv/ by itself: nothing has to be typed before it.
#   make run ARGS='--versions 20'     make test ARGS='-k ledger'     make bench ARGS=telemetry_cost

PYTHON ?= python3
ARGS ?=

BIN := .venv/bin
INSTALLED := .venv/installed
BENCHMARKS = $(basename $(notdir $(shell grep -l __main__ benchmarks/*.py)))

.PHONY: run test check format generate bench clean

run: $(INSTALLED)
	$(BIN)/asyncrl run $(ARGS)

test: $(INSTALLED)
	$(BIN)/python -m pytest $(ARGS)

check: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/metrics.py --check
	$(BIN)/python -m dashboards --check

format: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

generate: $(INSTALLED)
	$(BIN)/python docs/metrics.py
	$(BIN)/python -m dashboards

bench: $(INSTALLED)
	@for name in $(or $(ARGS),$(BENCHMARKS)); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit; done

# runs/ holds what your runs recorded: it stays.
clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch goes first: asked for by another package, pip may fetch a build of several GB over the one that fits.
# The board builder comes without its needs: they are a Kerberos built from source, for a login that nobody does here.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --constraint constraints.txt torch
	$(BIN)/pip install --constraint constraints.txt --editable '.[runtime,dev]'
	$(BIN)/pip install --constraint constraints.txt --no-deps grafana-dashboard-builder requests-kerberos argparse
	touch $@
