# Everything runs from a fresh clone: the first target that needs it creates .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# One thread per worker: two workers on two cores, and results that do not depend on the machine's width.
export OMP_NUM_THREADS := 1
WORKERS ?= 2

.PHONY: help demo test test-all coverage bench lint docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      a synthetic network from ingest to report, in out/demo"
	@echo "make test      the test suite (what continuous integration runs)"
	@echo "make test-all  the same with the slow tests"
	@echo "make coverage  the test suite, and what no test reaches (htmlcov/)"
	@echo "make bench     measure and write benchmarks/results.json"
	@echo "make lint      ruff, mypy, import contracts"
	@echo "make docs      build the documentation into site/"
	@echo "make clean     remove what the targets above made, but for .venv"

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): a few minutes, once"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: $(STAMP)
	$(BIN)/stationpde demo --output out/demo

test: $(STAMP)
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not slow"

test-all: $(STAMP)
	$(BIN)/python -m pytest -q -n $(WORKERS)

coverage: $(STAMP)
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not slow" --cov --cov-report=term:skip-covered --cov-report=html

bench: $(STAMP)
	$(BIN)/python -m benchmarks

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy --strict pde_ops
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "site/index.html opens without a server; to search as well: $(BIN)/python -m http.server -d site"

clean:
	rm -rf out site build dist htmlcov .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path "./$(VENV)/*" -prune -exec rm -rf {} +
