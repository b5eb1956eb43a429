# On a machine with Python 3.11 to 3.13 and make, nothing else:
#   make study   the environment, then a whole simulated study: a front and a report in seconds
#   make test    the environment, then lint, types and tests beside one another
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Twice the cores: half of the tests' time is waiting for processes to start, to be silent and to be gone.
WORKERS ?= $(shell echo $$((2 * $$(nproc))))

.PHONY: help env study test lint types tests drill lock clean
.DEFAULT_GOAL := help

help:
	@grep -E '^#   make' Makefile | cut -c3-

env: $(VENV)/.ready

# Rebuilt when the requirements or the lock change, never otherwise.
$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else "Python 3.11 to 3.13 is needed, but $(PYTHON) is %d.%d; name another with make PYTHON=…" % v)'
	@echo "making the environment in $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,postgres]"
	@touch $@

study: env
	$(BIN)/python -m search.run --study kimi-k25 --simulate

# Each tells the whole of what it found when it ends, but pytest, which tells as it goes: `+` keeps
# its lines out of the sorting. One that fails does not keep the others from their end.
test: env
	@$(MAKE) --no-print-directory --keep-going --jobs --output-sync=target lint types tests

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: env
	$(BIN)/mypy

tests: env
	+$(BIN)/python -m pytest -n $(WORKERS)

drill: env
	$(BIN)/python tests/drill

# The newest versions that fit pyproject.toml, written down so that tomorrow brings the same.
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --upgrade ".[dev,postgres]"
	build/lock/bin/python -m pip freeze --exclude search > constraints.txt

clean:
	rm -rf $(VENV) build dist
