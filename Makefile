# Every target makes its own environment when needed; nothing is done twice.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DOCS   := $(VENV)/.installed-docs
# Two cores: one torch thread per test process.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: demo test test-slow fuzz lint format docs figures bench clean

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[bench,test,lint]"
	@touch $@

$(DOCS): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	@touch $@

demo: $(STAMP)
	$(BIN)/hyperdlw demo --out out

test: $(STAMP)
	$(PYTEST) -n 2

test-slow: $(STAMP)
	$(PYTEST) -m slow

fuzz: $(STAMP)
	HYPERDLW_FUZZ=2000 $(PYTEST) -n 2 tests/fuzz tests/io/test_faults.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site in build/site; any warning is an error.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "open build/site/index.html"

# The pictures of the documentation.
figures: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python docs/_tools/figures.py

bench: $(STAMP)
	$(BIN)/python benchmarks/core.py

clean:
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
