# Needs only Python 3.11+ and make: uv and everything else is installed into .venv by the first run.

PYTHON ?= python3
BOOT := .uv
UV := $(BOOT)/bin/uv
RUN := .venv/bin/

.PHONY: demo test check bench docs clean

demo: .venv/demo
	$(RUN)kreach demo

test: .venv/ready
	@$(SHELL) tools/find_browser.sh
	$(RUN)pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist loadgroup

check: .venv/ready
	$(RUN)ruff format --check .
	$(RUN)ruff check .
	$(RUN)mypy
	$(RUN)lint-imports

bench: .venv/ready
	$(RUN)python -m benchmarks

docs: .venv/ready
	$(RUN)python -m tools.reference
	NO_MKDOCS_2_WARNING=1 $(RUN)mkdocs build --strict --quiet
	@echo "open site/index.html"

clean:
	rm -rf .venv $(BOOT) .mypy_cache .ruff_cache .pytest_cache .hypothesis site

$(UV):
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "kreach needs Python 3.11 or newer"'
	$(PYTHON) -m venv $(BOOT)
	$(BOOT)/bin/pip install --quiet --disable-pip-version-check uv

.venv/demo: $(UV) pyproject.toml uv.lock
	$(UV) sync --frozen --quiet --inexact --no-dev --python $(PYTHON)
	touch $@

.venv/ready: $(UV) pyproject.toml uv.lock
	$(UV) sync --frozen --quiet --inexact --all-extras --python $(PYTHON)
	touch $@ .venv/demo
