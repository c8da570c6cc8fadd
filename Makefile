# Every target sets up what it needs. Needs Python 3.11 or later and git; nothing else.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: setup demo docs operator-day screenshots watch-picture test test-fast sim defects faults team fuzz compiled check format bench bench-peers wheel sbom lock clean

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

# The documentation as a site that needs no server: open site/index.html.
docs: $(READY)
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The docs are in site/index.html"

# Plays an operator's day against a real run, and records its terminal for the docs.
operator-day: $(READY)
	$(BIN)/python -m tests.e2e.runs.operator_day docs/operator-day.svg

# Pictures of the page and a recorded session, of a real run in a real browser.
screenshots: $(READY)
	$(BIN)/python -m tests.e2e.page.pictures docs/pictures

# Takes a picture of `shiftboss watch` with a real run, for the docs.
watch-picture: $(READY)
	$(BIN)/python -m tests.e2e.runs.watch_picture docs/watch.svg

# The checks run beside the tests, and print at the end: mypy alone keeps one core busy for 20 s, while
# the tests are compiled on the other. Both must pass.
test: CHECKS = $(VENV)/check.log
test: $(READY)
	@$(MAKE) --no-print-directory check > $(CHECKS) 2>&1 & checks=$$!; \
	$(MAKE) --no-print-directory compiled && $(BIN)/python -m pytest; tests=$$?; \
	wait $$checks; checks=$$?; \
	cat $(CHECKS); \
	test $$tests = 0 && test $$checks = 0

# In less than a minute: the rules, the protocol, and the suite of the stores on SQLite.
test-fast: $(READY)
	$(BIN)/python -m pytest tests/unit tests/conformance -m "not postgres and not seconds" -n 2

# Ten thousand seeds on all cores, in some minutes. A failure is shortened and printed with its command.
sim: $(READY)
	$(BIN)/python -m shiftboss.cli.main simulate --seeds 1..10000 --steps 30

# Deliberate defects, two at a time, each found by the simulator or by a test.
defects: $(READY)
	$(BIN)/python -m tests.defects

# Once, and not by every worker of pytest and every process that tests start. Pytest rewrites its
# plugins as well: 0.7 s of each start, if nothing may write their bytecode.
compiled: export PYTHONDONTWRITEBYTECODE =
compiled: $(READY)
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m pytest --collect-only -qq -n 0 > /dev/null || true

check: $(READY)
	$(BIN)/ruff format --check src tests bench tools examples
	$(BIN)/ruff check src tests bench tools examples
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tools.secret_scan
	$(BIN)/python -m tools.audit

format: $(READY)
	$(BIN)/ruff format src tests bench tools examples
	$(BIN)/ruff check --fix src tests bench tools examples

bench: $(READY)
	$(BIN)/python -m bench

# Beside the task queues that people use, for an hour: SYSTEMS=, JOBS=, ROUNDS=, WORKERS= for less.
# Their servers come from Debian; without root it says which are missing, and skips them.
bench-peers: $(READY) $(PEERS)/.ready
	$(BIN)/python -m bench.peers --install
	$(BIN)/python -m bench.peers --docs docs $(if $(SYSTEMS),--systems $(SYSTEMS)) $(if $(JOBS),--jobs $(JOBS)) \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(WORKERS),--workers $(WORKERS)) $(if $(JSON),--json $(JSON))

$(PEERS)/.ready: bench/peers/requirements.lock $(READY)
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(BIN)/uv pip install --system-certs --quiet --compile-bytecode --python $(PEERS)/bin/python --require-hashes \
	  -r bench/peers/requirements.lock || \
	  $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r bench/peers/requirements.lock
	touch $(PEERS)/.ready

# Kills and stops the processes of running systems at random; takes a quarter of an hour. With
# ROUNDS=20 SEED=7, fewer rounds of the faults that this seed chooses.
faults: $(READY)
	$(BIN)/python -m tests.faults --rounds $(or $(ROUNDS),200) $(if $(SEED),--seed $(SEED))

# A team on two servers: work goes on while servers, tokens, keys and the policy are replaced.
team: $(READY)
	$(BIN)/python -m pytest tests/e2e/team -n 0

# Thousands of hostile inputs for every parser; takes half an hour.
fuzz: $(READY)
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest tests/fuzz --timeout 3600

# The same sources give the same bytes, wherever and whenever it is built.
wheel: $(READY)
	$(BIN)/python -m hatchling build --target wheel --directory dist

sbom: $(READY)
	mkdir -p dist
	$(BIN)/python -m tools.sbom > dist/sbom.cdx.json

lock: $(READY)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header --all-extras --group dev -o requirements.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header --group bench-peers -o bench/peers/requirements.lock

clean:
	rm -rf $(VENV) $(PEERS) .mypy_cache .ruff_cache .pytest_cache
