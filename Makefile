# The first two are for everybody, the others for development: see docs/development/development.md.

PYTHON ?= python3
VENV ?= .venv
DOCS_VENV ?= build/docs-venv
CONFIG ?= examples/configs/this-machine.yaml
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

.PHONY: help run test cases lint e2e cluster-e2e deploy-test soak bench generate lock image sbom base docs clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^\([a-z0-9-]*\):.*## /make \1 /p' Makefile | while read -r make name text; do printf '%s %-12s %s\n' "$$make" "$$name" "$$text"; done

# The locks carry hashes, so what is installed is what was tested.
$(VENV)/runtime.stamp: requirements/runtime.txt requirements/build.txt pyproject.toml
	@echo "==> $(VENV): a virtual environment for the daemon (once, about a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "genericdp needs Python 3.11 or newer; name one with make PYTHON=..." >&2; exit 1; }
	@# A venv that was not made to its end has no pip: it is made again.
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || rm -rf $(VENV)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "no virtual environment could be made: apt-get install python3-venv" >&2; exit 1; }
	@echo "==> installing the run-time dependencies"
	@$(PIP) install --progress-bar off --require-hashes -r requirements/runtime.txt | sed -u -n 's/^Collecting \([^ ]*\).*/    \1/p; s/^\(Successfully\)/    \1/p'
	@$(BIN)/python -c 'import grpc, yaml, jsonschema, pyudev, re2, inotify_simple, h11, prometheus_client, argcomplete' || { echo "installing the dependencies failed: see the messages above" >&2; exit 1; }
	@echo "==> installing genericdp into it"
	@# Without build isolation: pip would fetch the newest of what builds it, with no hash.
	@$(PIP) install -q --require-hashes -r requirements/build.txt
	@$(PIP) install -q --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/development.stamp: requirements/development.txt $(VENV)/runtime.stamp
	@echo "==> installing the development tools"
	@$(PIP) install --progress-bar off --require-hashes -r requirements/development.txt | sed -u -n 's/^Collecting \([^ ]*\).*/    \1/p; s/^\(Successfully\)/    \1/p'
	@$(BIN)/python -c 'import pytest, hypothesis, mypy, xdist' || { echo "installing the development tools failed: see the messages above" >&2; exit 1; }
	@touch $@

run: $(VENV)/runtime.stamp ## the daemon on this machine's devices, with a simulated kubelet; CONFIG=FILE
	@$(BIN)/genericdp simulate --config "$(CONFIG)"

# In four processes, also on two cores: half of its time a test waits. WORKERS=0: in one.
# Compiled once: not by each worker, nor by each program that a test starts.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/development.stamp ## lint, and every test that needs neither root nor Go
	@$(MAKE) --no-print-directory lint
	@$(BIN)/python -m pytest -m 'not e2e and not cluster and not deploy' -n $(or $(WORKERS),4) --dist loadfile --no-loadscope-reorder

cases: $(VENV)/development.stamp ## write what is expected in tests/cases and tests/configs again; CASES="groups/pairs invalid/tabs"
	@$(BIN)/python -m tests.cases.running $(CASES)
	@$(BIN)/python -m tests.config.expectations $(CASES)

lint: $(VENV)/development.stamp ## ruff, import-linter, mypy, and the words of the project
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports
	@$(BIN)/mypy
	@$(BIN)/python -m tools.words

e2e: $(VENV)/development.stamp ## real kubelets: the newest and the oldest, or KUBELETS=all, KUBELETS="1.36.3 1.34.4"
	@KUBELETS="$(KUBELETS)" tests/e2e/run $(BIN)

cluster-e2e: $(VENV)/development.stamp image ## a whole cluster, with what is shipped: the newest, or VERSIONS=all, VERSIONS="1.36.3 1.34.4"
	@VERSIONS="$(VERSIONS)" tests/e2e/run $(BIN) --cluster

deploy-test: $(VENV)/development.stamp $(DOCS_VENV)/stamp image ## image, manifests, chart and alerts, by the tools that read them
	@tests/e2e/run $(BIN) --deploy

soak: $(VENV)/development.stamp ## ten minutes of faults, or SECONDS=120; SEED=42: the same steps; KUBELETS=simulated, real
	@$(BIN)/python -m tests.soak $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(if $(KUBELETS),--kubelets $(KUBELETS))

bench: $(VENV)/development.stamp ## figures next to a bare plugin, as root, in twenty minutes; ARGS=--quick, ARGS=--help
	@$(BIN)/python -m bench $(ARGS)

generate: $(VENV)/development.stamp ## what is made of the schemas, the protocols and the settings
	@tools/generate_protobuf $(BIN)
	@$(BIN)/python tools/generate

lock: $(VENV)/development.stamp ## requirements/*.txt, with the newest versions
	@tools/lock $(BIN)

image: ## the container image, by docker, podman or buildah; BASE_IMAGE=NAME: on another base
	@tools/image build

sbom: ## the bill of materials of the image, by syft
	@tools/image sbom

base: ## genericdp-base, which is a BASE_IMAGE where no registry can be reached
	@tools/image base

# What makes the site has an environment of its own: the daemon's needs none of it.
$(DOCS_VENV)/stamp: requirements/docs.txt
	@echo "==> $(DOCS_VENV): a virtual environment for the site of docs/ (once)"
	@$(DOCS_VENV)/bin/python -m pip --version >/dev/null 2>&1 || rm -rf $(DOCS_VENV)
	@test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip --disable-pip-version-check --no-input install -q --require-hashes -r requirements/docs.txt
	@touch $@

docs: $(DOCS_VENV)/stamp ## the site, in build/docs/site
	@$(DOCS_VENV)/bin/python tools/build_site $(DOCS_VENV)/bin/zensical

clean: ## everything that make has made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
