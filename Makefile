# On a fresh machine with Python 3.11+ and make, `make demo` and `make test` do everything, each on its own.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
SEEDS ?= 5000
MINUTES ?= 30
KILLS ?= 300
ARGS ?=
export PYTHON

.PHONY: help
help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
	@echo "  ARGS=... goes on to the program behind demo, test, sim and the benches: make test ARGS='-k queue'"

# The stamp names this folder: a project that was moved gets a new .venv.
ifneq ($(shell cat .venv/ready 2>/dev/null),$(CURDIR))
.PHONY: .venv/ready
endif
.venv/ready: requirements.lock hack/uv.txt hack/setup pyproject.toml
	@hack/setup
	@printf '%s' '$(CURDIR)' > $@

.PHONY: demo
demo: .venv/ready ## The life of a volume on the embedded API server, step by step
	@$(BIN)/mooring demo $(ARGS)

.PHONY: test
test: .venv/ready ## All tests; says at the end which layers could not be tested here
	@$(BIN)/pytest -n 2 --dist worksteal $(ARGS)

.PHONY: check
check: .venv/ready ## Lint, format, types, import contracts, generated files, tidiness
	@hack/check

.PHONY: sim
sim: .venv/ready ## Many seeds of the simulation: make sim SEEDS=20000
	@$(BIN)/python -m tests.sim --seeds $(SEEDS) $(ARGS)

.PHONY: soak
soak: .venv/ready ## Mixed load on mooring apiserver for MINUTES (30), and whether anything grows
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

.PHONY: kills
kills: .venv/ready ## mooring apiserver killed under load KILLS times (300), and whether it kept its word
	@$(BIN)/python -m tests.kill_apiserver --kills $(KILLS) $(ARGS)

.PHONY: storm
storm: .venv/ready real-parts ## 500 claims at once, an unreliable driver, leaders killed: in process, embedded, real
	@STORM_CLAIMS=500 KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BIN)/pytest -q tests/e2e/test_storm.py $(ARGS)

.PHONY: bench-attach
bench-attach: .venv/ready real-parts ## Mooring's attacher beside the Go one, on a real API server
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BIN)/python -m bench.attach $(ARGS)

.PHONY: bench-provision
bench-provision: .venv/ready real-parts ## Mooring's provisioner and binder beside the Go ones, on a real API server
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BIN)/python -m bench.provision $(ARGS)

.PHONY: bench-apiserver
bench-apiserver: .venv/ready real-parts ## The embedded API server beside the real kube-apiserver and etcd
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BIN)/python -m bench.apiserver $(ARGS)

.PHONY: real-parts
real-parts: ## Build etcd, Kubernetes and the Go sidecars for the tests (needs Go; 11 minutes once, then cached)
	@hack/kube/build >/dev/null

.PHONY: lock
lock: .venv/ready ## Write requirements.lock anew from pyproject.toml; UPGRADE=1 takes newer versions
	@hack/lock $(if $(UPGRADE),--upgrade)

.PHONY: clean
clean: ## Remove .venv and all caches of the tools
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
