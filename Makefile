# `make test` and `make reproduce` need Python >= 3.11 and nothing else: both build .venv first.
PYTHON ?= python3
READY := .venv/.ready

.PHONY: test reproduce check format clean

# One process a core, up to eight; each imports torch, which takes half a gigabyte.
test: $(READY)
	.venv/bin/pytest -n auto --maxprocesses 8 --dist worksteal

reproduce: $(READY)
	.venv/bin/nt reproduce

check: $(READY)
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

format: $(READY)
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

clean:
	rm -rf .venv reports

# Everything installs from pyproject.toml; a change there installs again.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "arithmetext needs Python 3.11 or newer; this is `$(PYTHON) --version`. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
