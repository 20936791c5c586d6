# Every target makes the environment it needs, and nothing is done twice: one stamp for each purpose.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --disable-pip-version-check
# Small images: one torch thread is as fast as two, and does not spin on a busy machine.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
# On Linux, torch from PyPI brings gigabytes of GPU packages; this build brings none.
TORCH  := $(shell sed -n 's/^torch==//p' constraints.txt)
WHEELS := https://download.pytorch.org/whl/cpu

EXTRA_demo := demo
EXTRA_test := test
EXTRA_lint := lint
EXTRA_docs := docs

EXTRA_trust := trust

.PHONY: trust trust-coverage trust-kills trust-mutants trust-fuzz trust-sbom
.PHONY: demo test test-slow gpu-test fuzz lint format docs figures figures-walk listing bench bench-small
.PHONY: lock clean
.SECONDARY:

# The run time: the package and what it needs. A torch that is there is kept. LOCKED=1 installs what
# requirements.lock names, for all purposes (Python 3.11 on Linux).
$(VENV)/.run: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hyperdlw needs Python 3.11 or newer: make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the run time into $(VENV): about 200 MB to fetch, 1 to 3 minutes"
	@$(BIN)/python -c 'import torch' 2>/dev/null || test "$$(uname -s)" != Linux \
	  || $(PIP) --constraint constraints.txt "torch==$(TORCH)+cpu" 2>/dev/null \
	  || $(PIP) --constraint constraints.txt --index-url $(WHEELS) "torch==$(TORCH)+cpu" \
	  || echo "no CPU build of torch was found: the one that follows has gigabytes of GPU packages"
ifdef LOCKED
	$(PIP) --require-hashes --requirement requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
else
	$(PIP) --constraint constraints.txt --editable .
endif
	@touch $@ $(if $(LOCKED),$(foreach what,demo test lint docs,$(VENV)/.$(what)))

# What a purpose needs beside it.
$(VENV)/.%: $(VENV)/.run
	$(PIP) --quiet --constraint constraints.txt --editable ".[$(EXTRA_$*)]"
	@touch $@

demo: $(VENV)/.demo
	OMP_NUM_THREADS=1 $(BIN)/hyperdlw demo --out out
	OMP_NUM_THREADS=1 $(BIN)/hyperdlw demo --real --out out

test: $(VENV)/.test
	$(PYTEST) -n 2

test-slow: $(VENV)/.test
	$(PYTEST) -m slow

# For machines with a graphics card and a torch that is built for it.
gpu-test: $(VENV)/.test
	$(PYTEST) tests/devices

fuzz: $(VENV)/.test
	HYPERDLW_FUZZ=2000 $(PYTEST) -n 2 tests/fuzz

# Figures that earn trust (docs/trust.md), not in continuous integration: hours. Each step runs alone,
# and each leaves its figures in out/trust.
trust: trust-sbom trust-kills trust-coverage trust-mutants trust-fuzz

# TESTS=tests/laws looks at what a part of the tests covers. Each test is noted: the mutants need it.
TESTS ?=
trust-coverage: $(VENV)/.test $(VENV)/.trust
	mkdir -p out/trust
	rm -f out/trust/seconds.jsonl
	PYTHONPATH=. OMP_NUM_THREADS=1 $(BIN)/python -m coverage run --branch --source=src/hyperdlw \
	  --data-file=out/trust/coverage -m pytest -p benchmarks.trust.contexts $(TESTS); code=$$?; \
	  $(BIN)/python -m coverage report --data-file=out/trust/coverage > out/trust/coverage.txt; \
	  tail -1 out/trust/coverage.txt; exit $$code

TRIALS ?= 200
SEED   ?= 1
trust-kills: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/trust/kills.py --trials $(TRIALS) --seed $(SEED) \
	  --out out/trust/kills.jsonl

# Small faults sown at random in solver, weights, pipeline and io; a run that was stopped goes on.
# The coverage of the same source comes first.
MUTANTS ?= 300
trust-mutants: $(VENV)/.test $(VENV)/.trust
	test -e out/trust/coverage || $(MAKE) trust-coverage
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/trust/mutants.py --count $(MUTANTS) --seed $(SEED) \
	  --out out/trust/mutants.jsonl

# Runs of several days add up to the hours: out/trust/fuzz.jsonl has a line for each.
HOURS ?= 4
trust-fuzz: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/trust/fuzz.py --hours $(HOURS) --out out/trust/fuzz.jsonl

trust-sbom: $(VENV)/.test
	mkdir -p out/trust
	$(BIN)/python benchmarks/trust/sbom.py --extras view,scale > out/trust/sbom.json

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/repo-review . --show err

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site in build/site; any warning is an error. The examples are run for the gallery, two at a time,
# which takes a minute or two; build/gallery keeps them until the source changes.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "open build/site/index.html"

# The pictures of the documentation.
figures: $(VENV)/.run
	OMP_NUM_THREADS=1 $(BIN)/python docs/_tools/figures.py
	OMP_NUM_THREADS=1 $(BIN)/python docs/_tools/noises.py

# The real scene and the page, photographed in Chromium.
figures-walk: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python docs/_tools/walk.py

# Every table and figure of the paper on a small scene made by code: minutes, to see that all run.
bench-small: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/hyperdlw bench all --size small --out out/bench-small --quiet

# The names that the command line and the page offer, to be read without torch.
listing: $(VENV)/.run
	$(BIN)/python -m hyperdlw.app.listing

bench: $(VENV)/.run
	$(BIN)/python benchmarks/core.py

# What continuous integration installs (LOCKED=1), with a hash for every file. torch is not in it:
# its CPU build has other hashes than the one of PyPI.
lock: $(VENV)/.run
	$(PIP) --quiet uv
	sed 's/^torch==.*/&+cpu/' constraints.txt > $(VENV)/constraints.txt
	printf 'hatchling\neditables\n' | $(BIN)/uv pip compile pyproject.toml - --all-extras \
	  --constraint $(VENV)/constraints.txt --find-links "$${PIP_FIND_LINKS:-$(WHEELS)}" \
	  --python $(BIN)/python --generate-hashes --no-emit-package torch --no-emit-package hyperdlw \
	  --no-header --no-annotate --no-emit-find-links --quiet --output-file requirements.lock

clean:
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
