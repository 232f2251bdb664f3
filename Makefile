# Needs only Python 3.11+ and make: uv and everything else is installed into .venv by the first run.

PYTHON ?= python3
BOOT := .uv
UV := $(BOOT)/bin/uv
RUN := .venv/bin/
SYNC := $(UV) sync --frozen --quiet --inexact --python $(PYTHON)
# In the order of tests/schedule.py, not by how many tests a group has.
SPREAD = --dist loadgroup --no-loadscope-reorder -n
CORES = $$(getconf _NPROCESSORS_ONLN)

# As in tests/conftest.py: without bytecode every process would compile all modules anew.
ifdef PYTHONDONTWRITEBYTECODE
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.pytest_cache/bytecode
endif

.PHONY: demo test quick check bench soak docs image deploy-check clean

demo: .venv/demo
	$(RUN)kreach demo

test: .venv/ready
	@$(SHELL) tools/find_browser.sh
	@$(SHELL) tools/find_faketime.sh
	@$(SHELL) tools/find_postgres.sh
	@$(SHELL) tools/find_nats.sh
	@$(SHELL) tools/find_promtool.sh
	@$(SHELL) tools/find_systemd.sh
	$(RUN)pytest $(SPREAD) $$(($(CORES) + 2)) # some wait for services at any time

# Everything that starts no JVM, browser, Redis or other process.
quick: .venv/ready
	$(RUN)pytest $(SPREAD) $$(($(CORES) + 1)) -m quick

check: .venv/ready
	$(RUN)ruff format --check .
	$(RUN)ruff check .
	$(RUN)mypy
	$(RUN)lint-imports

bench: .venv/bench
	$(RUN)python -m benchmarks

# Takes hours: odd requests, 50,000 schedules of simulated faults, 1,000 kills of real bidders.
soak: .venv/ready
	$(RUN)python -m simulations.fuzz_bidder --requests 100000
	$(RUN)python -m simulations.money --schedules $(or $(SCHEDULES),50000) --first 1000000
	$(RUN)python -m tests.faults.soak --kills $(or $(KILLS),1000)

docs: .venv/ready
	$(RUN)python -m tools.reference
	NO_MKDOCS_2_WARNING=1 $(RUN)mkdocs build --strict --quiet
	@echo "open site/index.html"

# An OCI image in dist/, without a daemon or a registry.
image: $(UV)
	@$(SHELL) tools/find_image_tools.sh
	UV=$(UV) $(SHELL) deploy/image/build

# The image is built and run, as manifests, compose files and units say; rules and the dashboard are tested.
deploy-check: .venv/ready image
	@$(SHELL) tools/find_promtool.sh
	@$(SHELL) tools/find_systemd.sh
	@$(SHELL) tools/find_nats.sh
	$(RUN)python deploy/image/smoke.py dist/kreach-image.tar
	$(RUN)python -m tests.deploy.run_manifests dist/kreach-image.tar
	$(RUN)pytest tests/deploy

clean:
	rm -rf .venv .environments $(BOOT) .mypy_cache .ruff_cache .pytest_cache .hypothesis site

$(UV):
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "kreach needs Python 3.11 or newer"'
	$(PYTHON) -m venv $(BOOT)
	$(BOOT)/bin/pip install --quiet --disable-pip-version-check uv

.venv/demo: $(UV) pyproject.toml uv.lock
	$(SYNC) --no-dev --extra console --extra dp --extra lab
	touch $@

.venv/ready: $(UV) pyproject.toml uv.lock
	$(SYNC) --all-extras
	touch $@ .venv/demo

.venv/bench: .venv/ready
	$(SYNC) --all-extras --group bench
	touch $@
