# Everything happens in .venv, from one lock file. A fresh machine needs Python >= 3.11, pip, git and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
HOST ?= 127.0.0.1
PORT ?= 8000
UV_VERSION := 0.13.8
ENGINE ?= docker
IMAGE ?= dryserve

# The suite starts many processes: with this variable each of them would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup serve plan test quick coverage lint bench accuracy advice mutations oracle oracle-llamacpp oracle-sglang test-engine test-alloc test-gpu test-probe openapi clients image manifests load sbom audit test-replicas fuzz lock clean speed

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/'

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(READY)  ## make .venv from the lock file

serve: $(READY)  ## answer on http://127.0.0.1:8000
	$(BIN)/dryserve serve --host $(HOST) --port $(PORT)

plan: $(READY)  ## answer without a server: make plan ARGS="google/gemma-4-31B-it --gpu rtx-3090-24gb"
	@$(BIN)/dryserve plan $(ARGS) || test $$? -ge 3  # 3 and 4 are answers: it does not start, or it is uncertain

test: lint  ## lint, then the whole test suite, a process on each core
	$(BIN)/python -m pytest -n logical --dist loadfile

quick: lint  ## lint, then the tests that take less than three seconds each
	$(BIN)/python -m pytest -n logical --dist loadfile -m "not slow"

coverage: $(READY)  ## the whole test suite with coverage by branch, which takes three times as long
	$(BIN)/python -m pytest --cov --cov-report=term

lint: $(READY)  ## ruff, mypy and the import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## what a command takes, what the core takes in process, and latency and throughput over HTTP on loopback
	$(BIN)/python -m tests.bench

accuracy: $(READY)  ## agreement with what real releases answered: make accuracy ARGS="ROWS CONFIGS"
	$(BIN)/python -m tests.accuracy $(ARGS)

speed: $(READY)  ## tokens per second beside measured rows, by model: make speed ARGS=--fit scores held-out models
	$(BIN)/python -m tests.speed $(ARGS)

advice: $(READY)  ## hold answers against published commands: make advice ARGS="FOLDER CONFIGS --sweep --json FILE"
	$(BIN)/python -m tests.advice $(ARGS)

mutations: $(READY)  ## plan 100,000 configs changed at random; any error that is not ours fails
	$(BIN)/python -m tests.mutations $(ARGS)

oracle: $(READY)  ## ask a release of vLLM itself (installs it below .oracle): make oracle RELEASE=0.32.0
	$(BIN)/python -m tests.oracle $(RELEASE) $(ARGS)

oracle-llamacpp: $(READY)  ## ask llama.cpp's own library for the caches of random contexts (builds it below .oracle)
	$(BIN)/python -m tests.oracle.llama_cpp .oracle/llama_cpp $(ARGS)

oracle-sglang: $(READY)  ## ask SGLang's own pool configurators about random shapes (fetches its wheels below .oracle)
	$(BIN)/python -m tests.oracle.sglang .oracle/sglang $(ARGS)

test-web: $(READY)  ## the page's tests, in Debian's chromium where there is one
	$(BIN)/python -m pytest tests/web

pictures: $(READY)  ## draw the pictures of the README into docs/pictures
	$(BIN)/python -m tests.web.pictures

test-engine: $(READY)  ## run the probes on a real engine, on the CPU: make test-engine RELEASE=0.32.0
	$(BIN)/python -m tests.engine $(RELEASE) $(ARGS)

test-alloc: $(READY)  ## allocate what is planned for several shapes of models, with torch on the CPU
	$(BIN)/python -m tests.engine.allocation $(ARGS)

test-gpu: $(READY)  ## measure on this machine's GPU all that plans compute: make test-gpu PYTHONS="/opt/vllm/bin/python" ARGS="--out FOLDER"
	$(BIN)/python -m tests.engine.on_gpu $(PYTHONS) $(ARGS)

test-probe: $(READY)  ## 3,000 jobs under 100 kills of services and workers, on SQLite and PostgreSQL
	$(BIN)/python -m tests.reliability $(ARGS)

openapi: $(READY)  ## write openapi.yaml from the application
	$(BIN)/dryserve openapi > openapi.yaml

clients: $(READY)  ## generate clients with three tools, and let them read full answers
	$(PYTHON) -m venv .clients
	.clients/bin/python -m pip install --quiet --disable-pip-version-check openapi-python-client==0.29.1 ruff
	npm install --silent --no-fund --no-audit --prefix .clients openapi-typescript@7.13 @hey-api/openapi-ts@0.99 typescript@5
	$(BIN)/python -m pytest tests/api/test_generated_clients.py

image:  ## build the container image: make image ENGINE=podman IMAGE=registry.example/dryserve
	version=$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' service/__init__.py) && $(ENGINE) build \
		--tag $(IMAGE):$$version --tag $(IMAGE):latest --build-arg VERSION=$$version \
		--build-arg REVISION=$$(git rev-parse HEAD) --build-arg SOURCE="$$(git config --get remote.origin.url)" \
		--build-arg CREATED=$$(git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd) $(ARGS) .

manifests: $(READY)  ## render deploy/manifests from the chart, with helm or the package helm-python-sdk
	$(BIN)/python -m tests.deploy.manifests

UV_COMPILE = .venv-lock/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-config \
	--no-emit-index-url --no-annotate --system-certs --quiet --custom-compile-command "make lock"

sbom:  ## what ships, with versions, hashes and licences, as CycloneDX: dryserve.cdx.json
	$(PYTHON) -m venv .sbom
	.sbom/bin/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom==7.5.0
	$(PYTHON) -m venv .sbom/ships
	.sbom/ships/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
		-r requirements-runtime.lock
	.sbom/ships/bin/python -m pip uninstall --quiet --yes pip setuptools
	.sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
		--output-file dryserve.cdx.json .sbom/ships
	rm -rf .sbom

audit:  ## known vulnerabilities of what ships, from PyPI's advisories; needs its JSON interface
	$(PYTHON) -m venv .audit
	.audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1
	.audit/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements-runtime.lock
	rm -rf .audit

test-replicas: $(READY)  ## four replicas over PostgreSQL behind nginx: kills, upgrades, a database that fails
	$(BIN)/python -m tests.reliability.replicas $(ARGS)

fuzz: $(READY)  ## every operation with 2,000 generated requests, and all checks of schemathesis
	FUZZ_EXAMPLES=2000 $(BIN)/python -m pytest tests/api/test_fuzz.py

load: $(READY)  ## overload, idle and slow connections, saturation for a minute each: make load ARGS="--only full --seconds 20"
	$(BIN)/python -m tests.load $(ARGS)

lock:  ## resolve the locks anew, for every platform: development, what ships, what builds it
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet uv==$(UV_VERSION)
	$(UV_COMPILE) pyproject.toml --extra dev --upgrade --output-file requirements.lock
	$(UV_COMPILE) pyproject.toml --only-binary :all: --constraint requirements.lock --output-file requirements-runtime.lock
	echo 'hatchling>=1.27' | $(UV_COMPILE) - --only-binary :all: --constraint requirements.lock \
		--output-file requirements-build.lock
	rm -rf .venv-lock

clean:  ## remove what was built
	rm -rf $(VENV) .venv-lock .clients .oracle .sbom .audit dist build .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
