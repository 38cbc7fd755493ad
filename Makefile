PYTHON ?= .venv/bin/python

.PHONY: check test test-all docs size

check:  ## lint, types, fast tests
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest -m "not slow and not processes and not learning"

test:  ## everything but learning tests
	$(PYTHON) -m pytest -m "not slow and not learning"

test-all:  ## everything
	$(PYTHON) -m pytest

docs:  ## regenerate docs/settings.md
	$(PYTHON) -m sample_factory.config.docs

size:  ## the longest files of the package
	@git ls-files 'sample_factory/*.py' | xargs wc -l | sort -rn | head -15
