# Two commands matter: `make test` and `make demo`. Both need only make and Python.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Processes of one thread each, since threads of several processes wait for one another; one more
# than there are cores, since tests with browsers and processes of their own wait a third of their time.
# Each takes tests that stand together, so that what a file prepares is prepared once.
# Bytecode is kept whatever the environment says: what many processes import is compiled once.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# Which tests: all but those marked slow or thorough; tests/some_cases.py explains CI's choice.
MARKED := not slow and not thorough
# AGAIN=yes, CI's: a few tests that failed beside others are run once more, alone.
AGAIN  :=
# Written last, so that an interrupted installation is taken up again.
READY  := $(VENV)/.ready
# The environment that builds the website, with or without what the tests need.
SITE_READY := $(VENV)/.ready-site
# The files from which an editable installation is built.
BUILT_FROM := pyproject.toml hatch_build.py src/translucid/fast/cpu_kernels.c
CHECK_PYTHON = @$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "error: Translucid needs Python 3.11 or newer, but $(PYTHON) is %d.%d; try: make PYTHON=python3.12 ..." % v[:2])'
# These format and lint the studio's page, and check its types; package.json has their versions.
BIOME  := node_modules/.bin/biome
TSC    := node_modules/.bin/tsc

.DEFAULT_GOAL := help
.PHONY: help test demo lint style types page tests alone site site-docs site-studio site-tools clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: style page  ## install what is needed, then lint, check types and run the tests
	@$(MAKE) --no-print-directory -j2 types tests  # beside each other: mypy has one process

tests: $(READY)
	$(PYTEST) -m "$(MARKED)" $(if $(AGAIN),|| OMP_NUM_THREADS=1 $(BIN)/python .ci/alone.py $$?)

alone: $(READY)  ## run every test file in a process of its own (half an hour); FILES="tests/see" chooses
	$(BIN)/python .ci/each_file.py "$(MARKED)" $(FILES)

demo: $(READY)  ## train a translator while you watch, and look into it
	$(BIN)/translucid demo

site: site-docs site-studio  ## build the website in site/: landing page, documentation and studio

# -W: a broken link or a page that no other lists fails the build.
site-docs: $(SITE_READY)
	@mkdir -p site && find site -mindepth 1 -maxdepth 1 ! -name studio -exec rm -rf {} +
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -q -E -W --keep-going -j auto -c docs/site -d build/site . site

site-studio: $(SITE_READY)
	rm -rf site/studio
	$(BIN)/translucid explore --site site/studio

site-tools: $(SITE_READY)

lint: style page types  ## ruff (rules and format) and mypy; biome and tsc for the studio's page

style: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)
	$(BIN)/mypy

page:
	@if ! command -v npm > /dev/null; then echo "The studio's JavaScript is not checked: there is no npm."; \
	elif ! $(MAKE) --silent $(BIOME); then echo "The studio's JavaScript is not checked: npm could not install biome and tsc."; \
	else $(BIOME) ci --error-on-warnings && $(TSC) -p jsconfig.json; fi

clean:  ## remove the environment, every cache and what was built
	rm -rf $(VENV) node_modules build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIOME): package.json
	npm install --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@

# Without what only the tests need.
$(SITE_READY): $(wildcard $(READY)) requirements.lock docs/site/requirements.lock $(BUILT_FROM)
	$(CHECK_PYTHON)
	test -e $(READY) || $(PYTHON) -m venv $(VENV)
	test -e $(READY) || $(BIN)/python -m pip install --no-compile -c requirements.lock -e ".[web]"
	$(BIN)/python -m pip install --no-compile -r docs/site/requirements.lock
	@touch $@

$(READY): requirements.lock $(BUILT_FROM)
	$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --no-compile -r requirements.lock
	@# Of 13,000 files the tests import 2,000, most of them torch's: pip would compile all, one by one.
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib/python3*/site-packages/torch || true
	$(BIN)/python -m pip install --no-deps --no-build-isolation -e .
	@touch $@
