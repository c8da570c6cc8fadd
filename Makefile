# Every target sets up what it needs. Needs Python 3.11 or later and git; nothing else.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: setup demo operator-day test test-fast sim defects compiled check format bench lock clean

setup: $(READY)

# uv takes seconds where pip takes half a minute, but does not read the settings of pip: if it cannot
# reach an index, pip installs everything.
$(READY): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.lock
	$(PIP) --require-hashes -r $(VENV)/uv.lock
	$(BIN)/uv pip install --system-certs --quiet --compile-bytecode --python $(BIN)/python --require-hashes \
	  -r requirements.lock || $(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	touch $(READY)

demo: $(READY)
	$(BIN)/python -m shiftboss.cli.main demo

# Plays an operator's day against a real run, and records its terminal for the docs.
operator-day: $(READY)
	$(BIN)/python -m tests.e2e.runs.operator_day docs/operator-day.svg

test: $(READY)
	$(MAKE) --no-print-directory --jobs=2 check compiled
	$(BIN)/python -m pytest

# In less than a minute: the rules, the protocol, and the suite of the stores on SQLite.
test-fast: $(READY)
	$(BIN)/python -m pytest tests/unit tests/conformance -m "not postgres" -n 2

# Ten thousand seeds on all cores, in some minutes. A failure is shortened and printed with its command.
sim: $(READY)
	$(BIN)/python -m shiftboss.cli.main simulate --seeds 1..10000 --steps 30

# Deliberate defects, two at a time, each found by the simulator or by a test.
defects: $(READY)
	$(BIN)/python -m tests.defects

# Once, and not by every worker of pytest and every process that tests start.
compiled: $(READY)
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m pytest --collect-only -qq -n 0 > /dev/null || true

check: $(READY)
	$(BIN)/ruff format --check src tests bench examples
	$(BIN)/ruff check src tests bench examples
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(READY)
	$(BIN)/ruff format src tests bench examples
	$(BIN)/ruff check --fix src tests bench examples

bench: $(READY)
	$(BIN)/python -m bench

lock: $(READY)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header --all-extras --group dev -o requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
