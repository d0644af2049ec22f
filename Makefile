# `make repro` from a fresh clone runs everything; `make test` tests everything.
PYTHON ?= python3
BIN := $(CURDIR)/.venv/bin
export PATH := $(BIN):$(PATH)
# Equal runs give equal bytes; nothing phones home.
export PYTHONHASHSEED := 0
export DVC_NO_ANALYTICS := 1
export DO_NOT_TRACK := true
export MLFLOW_DISABLE_TELEMETRY := true
export GX_ANALYTICS_ENABLED := false
export HF_HUB_DISABLE_TELEMETRY := 1
# Many a container sets it; here every process would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

# What docs shows of the demo's report, as picture:figure.
PICTURES := decision.svg:decision-movies-minilm-linear-probe.svg \
            calibration.svg:calibration-minilm.svg

# Where SST-2 lies, and the Python of the machine with the card.
SST2 := external/sst2
GPU_PYTHON := 3.12

.PHONY: help setup repro prefect report mlflow test quick qlora flower docs browser benchmark gpu-bundle gpu quality style

help:  ## Show this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

setup: .venv/installed  ## Make .venv from the lock

.venv/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "rapt needs Python 3.11 or later, found %d.%d. Try: make PYTHON=python3.11" % v[:2])'
	$(PYTHON) -m venv .venv
	@# The lock names all that is needed, so pip resolves nothing. Python compiles a module when it is first imported.
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --requirement requirements.lock
	@# A CUDA build of torch needs packages of its own: this installs them, and nothing for a CPU build.
	$(BIN)/python -m pip install --quiet --no-compile $$(grep ^torch== requirements.lock)
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# What tests, benchmarks and style need beside it.
.venv/dev-installed: requirements-dev.lock .venv/installed
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --requirement requirements-dev.lock
	@touch $@

repro: setup  ## Run what changed, several stages at a time, then show the results
	@rapt flow
	@rapt results

prefect: setup  ## A Prefect server for this project's flows, with its pages, on this machine only
	python -m pipelines.server

report: setup  ## Only what the report needs; of the demo, the pictures in docs as well
	@rapt check
	dvc repro report
	@for name in $(PICTURES); do \
	  if test -f reports/figures/$${name#*:}; then cp reports/figures/$${name#*:} docs/$${name%%:*}; fi; \
	done

mlflow: setup  ## Review the runs in a browser, on this machine only
	mlflow ui --host 127.0.0.1 --backend-store-uri sqlite:///mlflow.db

test: .venv/dev-installed  ## All tests, the slow files first, then QLoRA's
	@# A process more than cores, as the tests of flows wait for other processes.
	OMP_NUM_THREADS=1 python -m pytest --numprocesses $$(($$(nproc) + 1)) --dist loadfile --no-loadscope-reorder
	@$(MAKE) --no-print-directory qlora

quick: .venv/dev-installed  ## The tests that take seconds, a process for each core
	OMP_NUM_THREADS=1 python -m pytest -m "not slow" --numprocesses auto --dist loadfile

# Not in .venv itself: PEFT imports it wherever it is, more than a second of every training process.
.venv/qlora: .venv/installed Makefile
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $@ bitsandbytes==0.50.2
	@touch $@

qlora: .venv/qlora .venv/dev-installed  ## The tests of QLoRA, which need bitsandbytes
	PYTHONPATH=.venv/qlora python -m pytest tests/tuning/test_quantized.py

# Apart from .venv, which it would give older versions of typer, rich, protobuf and FastAPI.
.venv/flower: .venv/installed requirements-flower.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --upgrade --target $@ --requirement requirements-flower.lock
	@touch $@

flower: .venv/flower .venv/dev-installed  ## Flower, for training among machines, and its test of processes on this one
	PYTHONPATH=.venv/flower OMP_NUM_THREADS=1 python -m pytest -m slow tests/federated/test_flower.py

# Apart from .venv: the site's packages would change the versions of the product's.
.venv/docs: .venv/installed requirements-docs.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --upgrade --target $@ --requirement requirements-docs.lock
	@touch $@

docs: .venv/docs  ## Check the prose of the pages, and build their site: site/index.html
	PYTHONPATH=.venv/docs python -m proselint check --config docs/proselint.json README.md docs/*.md evidence/*.md
	PYTHONPATH=.venv/docs NO_MKDOCS_2_WARNING=1 python -m mkdocs build --strict

browser:  ## Install Chromium from Debian's packages, for the tests that open the report
	@command -v chromium > /dev/null || { apt-get update --quiet=2 && apt-get install --yes --quiet=2 --no-install-recommends chromium; }

benchmark: .venv/dev-installed  ## Measure speed and memory: reports/benchmarks.json, and the pages that quote it; minutes
	dvc repro benchmarks/dvc.yaml
	@python docs/figures.py

gpu-bundle: setup  ## Pack what a machine with a GPU and no network needs: build/rapt-gpu.tar.gz
	python -m benchmarks.gpu.bundle --sst2 $(SST2) --python $(GPU_PYTHON)

gpu: GPU_PYTHON := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
gpu: gpu-bundle .venv/dev-installed  ## What this machine's GPU does, in at most eight minutes: reports/gpu.json
	rm -rf build/rapt-gpu
	tar xf build/rapt-gpu.tar.gz -C build
	cd build/rapt-gpu && OUT=$(CURDIR)/reports python -m benchmarks.gpu

quality: .venv/dev-installed  ## Style and types
	ruff check .
	ruff format --check .
	mypy

style: .venv/dev-installed  ## Correct the style
	ruff check --fix .
	ruff format .
