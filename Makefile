# Everything a developer types. `make` alone lists it.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Apart, as what audits is no part of what is audited.
AUDIT := $(VENV)/audit

# Test processes. Two is what the smallest supported machine has.
JOBS ?= 2
COVERAGE_MIN := 95
PYTEST_ARGS ?=

# In the order of design: what one gang costs first. Only those that exist are run.
BENCHMARKS := placement preemption throughput ledger restart recovery heartbeats quality dashboard
BENCH ?= $(foreach name,$(BENCHMARKS),$(if $(wildcard benchmarks/$(name).py benchmarks/$(name)/__main__.py),$(name)))
BENCH_ARGS ?= --json

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(INSTALLED) ## make .venv and install everything, at the pinned versions

$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "no python3 found; Python 3.11 or newer is needed" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is too old; Python 3.11 or newer is needed" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { echo "cannot make $(VENV); on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "installing into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@$(BIN)/python -m compileall -q api client scheduler # a service starts in half the time then
	@touch $@

.PHONY: demo
demo: $(INSTALLED) ## a cluster, a 1,024-GPU job and where it went; DEMO_EXIT=1 ends at once
	@$(BIN)/python -m client.demo

.PHONY: test
test: $(INSTALLED) ## the tests, on SQLite and PostgreSQL, with branch coverage of scheduler/
	$(BIN)/pytest -m "not slow" -n $(JOBS) --dist loadfile \
		--cov=scheduler --cov-branch --cov-report=term --cov-report=json:.coverage.json \
		--cov-fail-under=$(COVERAGE_MIN) $(PYTEST_ARGS)
	@$(BIN)/python .ci/branch_coverage.py .coverage.json $(COVERAGE_MIN)

.PHONY: test-all
test-all: $(INSTALLED) ## the same and the slow suites
	$(BIN)/pytest -n $(JOBS) --dist loadfile -o timeout=900 $(PYTEST_ARGS)

.PHONY: soak
soak: $(INSTALLED) ## 10^6 simulated steps of storms; SOAK_ARGS="--part 0 --of 10" runs a part of them
	$(BIN)/python -m tests.simulation.soak $(SOAK_ARGS)

.PHONY: soak-service
soak-service: $(INSTALLED) ## 2,000 played histories of the service; SOAK_ARGS="--part 0 --of 10" runs a part
	$(BIN)/python -m tests.simulation.service.soak $(SOAK_ARGS)

.PHONY: check
check: check-format check-lint check-types check-imports check-tidy check-files ## format, lint, types, imports, tidy

.PHONY: check-format
check-format: $(INSTALLED)
	$(BIN)/ruff format --check

.PHONY: check-lint
check-lint: $(INSTALLED)
	$(BIN)/ruff check

.PHONY: check-types
check-types: $(INSTALLED)
	$(BIN)/mypy

.PHONY: check-imports
check-imports: $(INSTALLED)
	$(BIN)/lint-imports

.PHONY: check-tidy
check-tidy: $(INSTALLED)
	$(BIN)/pytest -q -p no:cacheprovider tests/tidy

.PHONY: check-files
check-files: $(INSTALLED)
	$(BIN)/yamllint --strict .
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	$(BIN)/hadolint Dockerfile
	$(BIN)/shellcheck .ci/run

.PHONY: audit
audit: ## known holes in the pinned dependencies, asked of PyPI; needs the network, so no part of check
	@test -x $(AUDIT)/bin/pip-audit || { $(PYTHON) -m venv $(AUDIT) && \
		$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1; }
	$(AUDIT)/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip --strict

.PHONY: reference
reference: $(INSTALLED) ## write the pages of docs/ that are made from the code
	$(BIN)/python -m tests.tidy.reference

.PHONY: format
format: $(INSTALLED) ## rewrite the code as the formatter and the linter's safe fixes want it
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

.PHONY: bench
bench: $(INSTALLED) ## every benchmark, one JSON object each; BENCH=placement for one
	@for name in $(BENCH); do $(BIN)/python -m benchmarks.$$name $(BENCH_ARGS) || exit 1; done

.PHONY: clean
clean: ## remove what can be made again
	rm -rf $(VENV) build dist .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis
