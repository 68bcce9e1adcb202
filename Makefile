# Python 3.11 or later and make are all that is needed; everything else goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Without bytecode, which pip makes of every module there is; Python makes and keeps that of those that are imported.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

# Bytecode is kept, as kernels are: else every process that a test starts compiles the package's source.
unexport PYTHONDONTWRITEBYTECODE

# Tests run on every core already: threads of the BLAS would wait for each other.
test test-fast test-long test-slow: export OMP_NUM_THREADS = 1

.PHONY: demo serve-demo test test-fast test-long test-slow test-bounds lint format docs bench fuzz dist smoke clean

demo: $(VENV)/.installed
	$(BIN)/noregret compare

# A server on loopback with simulated patients; Ctrl-C stops it.
serve-demo: $(VENV)/.serve
	$(BIN)/noregret serve-demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal -m "not slow and not long"

# Studies that take seconds each, of which `make test` has the first cases.
test-long: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal -m "long and not slow"

# Before a commit: every room once, in 75 seconds on two idle cores where everything is compiled already.
test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest tests --numprocesses auto --dist worksteal -m "not slow and not long and not deep"

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses auto -m slow -o faulthandler_timeout=3600

# A part of the fuzzing of files and verbs, with every index of every kernel checked; code with checks has its own cache.
test-bounds: export NUMBA_BOUNDSCHECK = 1
test-bounds: export NUMBA_OPT = 1
test-bounds: export NUMBA_CACHE_DIR = $(CURDIR)/build/bounds
test-bounds: $(VENV)/.dev
	$(BIN)/python tests/fuzz_memory.py --files $(or $(FILES),600) --verbs $(or $(VERBS),600) --seed $(or $(SEED),0)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

fuzz: $(VENV)/.dev
	$(PIP) --editable '.[dev,fuzz]'
	$(BIN)/python tests/fuzz_loader.py -max_total_time=600 -timeout=120 -rss_limit_mb=0

bench: $(VENV)/.installed
	$(BIN)/noregret bench

# The source distribution, and the wheel made from it.
dist: $(VENV)/bin/python
	$(PIP) build
	rm -rf dist build/lib
	$(BIN)/python -m build --outdir dist .

# Both installed into fresh environments, outside this folder, and tried.
smoke: $(or $(wildcard dist/*.whl),dist)
	rm -rf build/smoke
	set -e; for file in dist/*.whl dist/*.tar.gz; do \
	    $(PYTHON) -m venv --clear build/smoke; \
	    build/smoke/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt $$file; \
	    build/smoke/bin/python -I tools/smoke.py; \
	done

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("noregret needs Python 3.11 or later, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing into $(VENV) ..."
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing into $(VENV) ..."
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps icu-sepsis  # its files alone are read; what it depends on is not needed
	@touch $(VENV)/.installed $@

$(VENV)/.serve: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing into $(VENV) ..."
	$(PIP) --editable '.[serve]'
	@touch $(VENV)/.installed $@

$(VENV)/.docs: $(VENV)/.installed
	$(PIP) --editable '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) build dist results site .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
