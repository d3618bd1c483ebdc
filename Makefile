# make run    the daemon on this machine's real devices, against the built-in stand-in for the kubelet
# make test   every test that needs neither root nor Go;  make e2e: the ones with real kubelets
# The other targets are for development: see docs/development.md.

PYTHON ?= python3
VENV ?= .venv
DOCS_VENV ?= build/docs-venv
CONFIG ?= examples/configs/this-machine.yaml
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

.PHONY: run test lint e2e e2e-all cluster-e2e deploy-test kubelets soak bench bench-crowd bench-growth fuzz wheel compare lock generate docs image clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# //p' Makefile

# The locks carry hashes, so what is installed is what was tested.
$(VENV)/runtime.stamp: requirements/runtime.txt requirements/build.txt pyproject.toml
	@echo "==> $(VENV): a virtual environment for the daemon (once, about half a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "genericdp needs Python 3.11 or newer; name one with make PYTHON=..." >&2; exit 1; }
	@# A venv that was not made to its end has no pip: it is made again.
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || rm -rf $(VENV)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "no virtual environment could be made: apt-get install python3-venv" >&2; exit 1; }
	@echo "==> installing the run-time dependencies"
	@$(PIP) install --progress-bar off --require-hashes -r requirements/runtime.txt | sed -u -n 's/^Collecting \([^ ]*\).*/    \1/p; s/^\(Successfully\)/    \1/p'
	@$(BIN)/python -c 'import grpc, yaml, jsonschema, pyudev, re2, inotify_simple, h11, prometheus_client' || { echo "installing the dependencies failed: see the messages above" >&2; exit 1; }
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

run: $(VENV)/runtime.stamp
	@$(BIN)/genericdp simulate --config $(CONFIG)

# In four processes, also on two cores: half of its time a test waits. WORKERS=0: in one.
test: $(VENV)/development.stamp
	@$(MAKE) --no-print-directory lint
	@$(BIN)/python -m pytest -m 'not e2e and not cluster and not deploy' -n $(or $(WORKERS),4) --dist loadfile

lint: $(VENV)/development.stamp
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports
	@$(BIN)/mypy

# With the newest and the oldest kubelet, or those in KUBELETS ("1.36.3 1.34.4").
e2e: $(VENV)/development.stamp
	@KUBELETS="$(KUBELETS)" tests/e2e/run $(BIN)

e2e-all: $(VENV)/development.stamp
	@KUBELETS=all tests/e2e/run $(BIN)

# A whole cluster, with the image and the manifests that are shipped.
cluster-e2e: $(VENV)/development.stamp image
	@tests/e2e/run $(BIN) --cluster

# What the image, the manifests and the alerts promise, by helm, kubectl, promtool and podman.
deploy-test: $(VENV)/development.stamp $(DOCS_VENV)/stamp image
	@tests/e2e/run $(BIN) --deploy

kubelets: $(VENV)/development.stamp
	@tests/e2e/run $(BIN) --build

# Ten minutes unless told; the same SEED is the same steps. KUBELETS: all, simulated or real.
soak: $(VENV)/development.stamp
	@$(BIN)/python -m tests.soak $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(if $(KUBELETS),--kubelets $(KUBELETS))

# In ten minutes at most. SAVE: a file for the figures as JSON, for python -m bench.compare.
bench: $(VENV)/development.stamp
	@$(BIN)/python -m bench $(if $(SAVE),--save $(SAVE))

# How each cost grows with resources, devices and sysfs: tables, and the plots of docs/growth.md.
bench-growth: $(VENV)/development.stamp
	@mkdir -p build
	@$(BIN)/python -m bench.scaling --svg docs/growth --save build/growth.json

# 100,000 devices in one process; as root below /dev.
bench-crowd: $(VENV)/development.stamp
	@$(BIN)/python -m bench.crowd

# With atheris in the environment it is guided by coverage; what it found lies in tests/fuzz/corpus.
fuzz: $(VENV)/development.stamp
	@$(BIN)/python -m tests.fuzz $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(TARGETS)

# For machines that are not to build it: dist/*.whl, beside requirements/runtime.txt.
wheel: $(VENV)/runtime.stamp
	@$(PIP) wheel -q --no-deps --no-build-isolation -w dist .
	@ls dist/*.whl

# With another commit: BASE=REF; ARGS: of tools/compare, as ARGS="--only hosts".
compare: $(VENV)/development.stamp
	@$(BIN)/python -m tools.compare $(if $(BASE),--base $(BASE)) $(ARGS)

lock: $(VENV)/development.stamp
	@tools/lock $(BIN)

generate: $(VENV)/development.stamp
	@tools/generate_protobuf $(BIN)
	@$(BIN)/python tools/generate_reference
	@$(BIN)/python tools/generate_hardware
	@$(BIN)/python tools/generate_monitoring
	@$(BIN)/python tools/generate_chart

# What makes the site has an environment of its own: the daemon's needs none of it.
$(DOCS_VENV)/stamp: requirements/docs.txt
	@echo "==> $(DOCS_VENV): a virtual environment for the site of docs/ (once)"
	@$(DOCS_VENV)/bin/python -m pip --version >/dev/null 2>&1 || rm -rf $(DOCS_VENV)
	@test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip --disable-pip-version-check --no-input install -q --require-hashes -r requirements/docs.txt
	@touch $@

docs: $(DOCS_VENV)/stamp
	@$(DOCS_VENV)/bin/python tools/build_site $(DOCS_VENV)/bin/zensical

# ARCH=arm64 for the other; BUILD_BASE and RUN_BASE for other bases than those made here.
image: $(VENV)/runtime.stamp
	@deploy/image/build-image $(BIN)/python $(ARCH)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
