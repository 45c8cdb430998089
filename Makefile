# Two commands matter: `make demo` and `make test`. Both make their own environment in .venv first.
# PYTHON chooses the interpreter that .venv is made with: make test PYTHON=python3.13

PYTHON ?= python3
BIN := .venv/bin
ROOMS := ir tracer passes codegen eager runtime

.PHONY: demo test lint types pytest bench-targets clean
.DEFAULT_GOAL := test

demo: .venv/installed
	$(BIN)/python examples/digits.py

test: lint types pytest

lint: .venv/installed
	$(BIN)/ruff check .

# mypy does not follow setuptools' folder mapping, so it is shown the package as it looks once installed.
types: .venv/installed
	rm -rf build/types && mkdir -p build/types/adjit
	ln -s $(wildcard $(CURDIR)/api/*) $(ROOMS:%=$(CURDIR)/%) build/types/adjit/
	MYPYPATH=build/types $(BIN)/mypy -p adjit

pytest: .venv/installed
	$(BIN)/python -m pytest -q -n 2

# PEERS: an interpreter that has the libraries to compare with, see benchmarks/README.md.
bench-targets: .venv/installed
	$(BIN)/python benchmarks/targets.py $(if $(PEERS),--peer-python $(PEERS))

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "adjit needs Python 3.11 or later, $(PYTHON) is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt setuptools
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist out *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
