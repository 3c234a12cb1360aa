# On a fresh machine with Python 3.11+ and make, `make demo` and `make test` do everything, each on its own.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
SEEDS ?= 2000
SEEDS_OF_EACH ?= 14300
MINUTES ?= 30
HOURS ?= 8
KILLS ?= 300
SECONDS ?= 300
CRASH_SEEDS := $(if $(filter command environment,$(word 1,$(origin SEEDS))),$(SEEDS),10)
HOUR := $(if $(filter command environment,$(word 1,$(origin MINUTES))),$(MINUTES),60)
SEED ?= 0
RUNS ?= 1
ARGS ?=
export PYTHON
# Without bytecode on disk every program that a test starts compiles all of its modules first: 1.6 s in place of 0.6 for the attacher.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
	@echo "  ARGS=... goes on to the program behind: make dev ARGS='--state ./state'"
	@echo "  PYTHON=... is what a bench runs on: make bench-attach PYTHON=/usr/bin/python3"

# The stamp names this folder: a project that was moved gets a new .venv.
ifneq ($(shell cat .venv/ready 2>/dev/null),$(CURDIR))
.PHONY: .venv/ready
endif
LOCKED := requirements.lock hack/uv.txt hack/setup pyproject.toml
.venv/ready: $(LOCKED)
	@hack/setup
	@printf '%s' '$(CURDIR)' > $@

# The benches run on PYTHON, where it is given, in an environment of its own: .venv stays as it is.
BENCH := $(if $(PYTHON),.venv-bench,.venv)
ifneq ($(shell cat .venv-bench/ready 2>/dev/null),$(CURDIR) $(PYTHON))
.PHONY: .venv-bench/ready
endif
.venv-bench/ready: $(LOCKED)
	@hack/setup .venv-bench
	@printf '%s' '$(CURDIR) $(PYTHON)' > $@

.PHONY: demo
demo: .venv/ready ## See the life of a volume, step by step
	@$(BIN)/mooring demo $(ARGS)

.PHONY: dev
dev: .venv/ready ## An API server, a driver and controllers, until Ctrl-C
	@$(BIN)/mooring dev $(ARGS)

.PHONY: venv
venv: .venv/ready ## .venv with all commands, and nothing else
	@echo "The commands are in $(BIN): $(BIN)/mooring --help lists them"

.PHONY: docs
docs: .venv/ready ## The pages as a site, in site/
	@$(BIN)/sphinx-build -q -W --keep-going -c hack/docs -b html . site
	@echo "The site is in site/: open site/index.html"

.PHONY: test
test: .venv/ready ## All but the long ones; the end says what was not tested
	@$(BIN)/pytest -n 6 --dist worksteal -m "not long" $(ARGS)

.PHONY: test-long
test-long: .venv/ready ## The long tests, but for the storms
	@$(BIN)/pytest -n 4 --dist worksteal -m long --ignore-glob="*/e2e/*storm.py" $(ARGS)

.PHONY: long
long: ## All that .ci/run leaves out: hours; ARGS='storm soak'
	@hack/long $(ARGS)

.PHONY: check
check: .venv/ready ## Lint, format, types, import contracts, tidiness
	@hack/check

.PHONY: sim
sim: .venv/ready ## SEEDS (2000) lives of the whole plane, and every point
	@$(BIN)/python -m tests.sim --part plane --seeds $(SEEDS) $(ARGS)
	@$(BIN)/python -m tests.sim.points --jobs "$$(nproc)"

.PHONY: sim-share
sim-share: .venv/ready ## A share of it that the commit's hash draws
	@$(BIN)/python -m tests.sim.share $(ARGS)

.PHONY: sim-bugs
sim-bugs: .venv/ready ## How many planted bugs does it find?
	@$(BIN)/python -m tests.sim.bug_meter $(ARGS)

.PHONY: sim-all
sim-all: .venv/ready ## Hours, in sittings: 100,000 lives, every state and size
	@$(BIN)/python -m tests.sim.sittings --seeds $(SEEDS_OF_EACH) $(ARGS)

.PHONY: soak
soak: .venv/ready ## MINUTES (30) of load on mooring apiserver: what grows?
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

.PHONY: soak-large
soak-large: .venv/ready real-parts ## MINUTES (30) of a large cluster under load and faults
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BIN)/python -m tests.soak.large --minutes $(MINUTES) $(ARGS)

.PHONY: soak-virtual
soak-virtual: .venv/ready ## HOURS (8) of the plane, leaping: what grows?
	@$(BIN)/python -m tests.soak.virtual --hours $(HOURS) $(ARGS)

.PHONY: soak-wires
soak-wires: .venv/ready real-parts ## MINUTES (30) of volumes while connections are cut
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BIN)/python -m tests.soak.cut_wires --minutes $(MINUTES) $(ARGS)

.PHONY: kills
kills: .venv/ready ## mooring apiserver killed KILLS times (300) under load
	@$(BIN)/python -m tests.kill_apiserver --kills $(KILLS) $(ARGS)

.PHONY: fuzz
fuzz: .venv/ready ## An hour of spoilt requests, with a meter as the judge
	@$(BIN)/python -m tests.fuzz --minutes $(HOUR) --from $(SEED) $(ARGS)

.PHONY: differential
differential: .venv/ready real-parts ## An hour of random requests to both API servers
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BIN)/python -m tests.differential --minutes $(HOUR) --from $(SEED) --keep-going $(ARGS)

.PHONY: node-crash
node-crash: .venv/ready real-parts ## Node agents and drivers killed, in SEEDS (10) rounds
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BIN)/python -m tests.node_crash --seeds $(CRASH_SEEDS) $(ARGS)

.PHONY: attachdetach-load
attachdetach-load: .venv/ready real-parts ## Pods move, controllers die
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BIN)/python -m tests.attachdetach_load --seconds $(SECONDS) $(ARGS)

.PHONY: sanity
sanity: .venv/ready real-parts ## csi-sanity on the reference driver, RUNS (1) times
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" unshare --mount --propagation private $(BIN)/python -m tests.sanity --runs $(RUNS) $(ARGS)

.PHONY: storm
storm: .venv/ready real-parts ## 500 claims, 200 growths and snapshots, leaders killed
	@STORM_CLAIMS=500 STORM_GROWTHS=200 KUBE_TEST_BIN="$$(hack/kube/build --folder)" \
		$(BIN)/pytest -q -o faulthandler_timeout=900 tests/e2e/test_storm.py tests/e2e/test_growth_storm.py $(ARGS)

.PHONY: meter
meter: .venv/ready ## Instructions of an attach and others: what rose?
	@$(BIN)/python -m bench.instructions $(ARGS)

.PHONY: bench-attach
bench-attach: $(BENCH)/ready real-parts ## Mooring's attacher beside the Go one
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BENCH)/bin/python -m bench.attach $(ARGS)

.PHONY: bench-attachdetach
bench-attachdetach: $(BENCH)/ready real-parts ## Attach/detach beside Go
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BENCH)/bin/python -m bench.attachdetach $(ARGS)

.PHONY: bench-provision
bench-provision: $(BENCH)/ready real-parts ## Mooring's provisioner and binder beside the Go ones
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BENCH)/bin/python -m bench.provision $(ARGS)

.PHONY: bench-bounds
bench-bounds: $(BENCH)/ready real-parts ## The API server's cost without a controller
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BENCH)/bin/python -m bench.bounds $(ARGS)

.PHONY: bench-resize
bench-resize: $(BENCH)/ready real-parts ## Mooring's resizer beside the Go one
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BENCH)/bin/python -m bench.resize $(ARGS)

.PHONY: bench-snapshot
bench-snapshot: $(BENCH)/ready real-parts ## Both programs for snapshots beside the Go ones
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BENCH)/bin/python -m bench.snapshot $(ARGS)

.PHONY: bench-controller
bench-controller: $(BENCH)/ready real-parts ## One process for several controllers, beside the Go ones
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BENCH)/bin/python -m bench.controller $(ARGS)

.PHONY: bench-scale
bench-scale: $(BENCH)/ready real-parts ## 1,000 and 10,000 volumes, beside Go; as root
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BENCH)/bin/python -m bench.scale $(ARGS)

.PHONY: bench-apiserver
bench-apiserver: $(BENCH)/ready real-parts ## The embedded API server beside the real one and etcd
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BENCH)/bin/python -m bench.apiserver $(ARGS)

.PHONY: bench-apiclient
bench-apiclient: $(BENCH)/ready ## A request's cost to the client, beside aiohttp
	@$(BENCH)/bin/python -m bench.apiclient $(ARGS)

.PHONY: bench-node
bench-node: $(BENCH)/ready real-parts ## Mooring's node agent beside the kubelet; as root
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" unshare --mount $(BENCH)/bin/python -m bench.node $(ARGS)

.PHONY: bench-why
bench-why: $(BENCH)/ready real-parts ## mooring why on a cluster of 20,000 volumes
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BENCH)/bin/python -m bench.why $(ARGS)

.PHONY: bench-sidecars
bench-sidecars: $(BENCH)/ready ## Registrar and probe beside Go's: ARGS='--peers FOLDER'
	@$(BENCH)/bin/python -m bench.sidecars $(ARGS)

.PHONY: images
images: ## The images of all programs; needs podman or buildah
	@$(if $(BASE),BASE=$(BASE)) hack/images $(ARGS)

.PHONY: images-test
images-test: .venv/ready real-parts ## Run each image beside real parts; needs podman
	@KUBE_TEST_BIN="$$(hack/kube/build --folder)" $(BIN)/pytest -p no:xdist -q tests/in_images.py $(ARGS)

.PHONY: real-parts
real-parts: ## Build what tests compare with (Go; 11 minutes, once)
	@hack/kube/build >/dev/null

.PHONY: release-tools
release-tools: ## Build what checks a release (Go; 5 minutes, once)
	@hack/tools/build >/dev/null

.PHONY: picture
picture: .venv/ready ## Write the pictures of docs, from a real mooring dev
	@PYTHONPATH=. $(BIN)/python hack/live_picture.py
	@PYTHONPATH=. $(BIN)/python hack/trace_picture.py
	@$(BIN)/python -m hack.monitoring.picture
	@PYTHONPATH=. $(BIN)/python hack/browser_picture.py

.PHONY: chart
chart: .venv/ready ## Write deploy/chart from the other folders of deploy/
	@$(BIN)/python -m hack.chart

.PHONY: monitoring
monitoring: .venv/ready ## Write deploy/monitoring: alerts and dashboards
	@$(BIN)/python -m hack.monitoring

.PHONY: lowest
lowest: .venv/ready ## Test with the lowest versions allowed (Python 3.11)
	@hack/lowest $(ARGS)

.PHONY: lock
lock: .venv/ready ## Write requirements.lock; UPGRADE=1 takes newer versions
	@hack/lock $(if $(UPGRADE),--upgrade)

.PHONY: sbom
sbom: .venv/ready ## Write the parts lists of a release (CycloneDX) to dist
	@hack/sbom

.PHONY: release
release: .venv/ready ## All of a release into dist; BASE=python@sha256:...
	@$(if $(BASE),BASE=$(BASE)) $(BIN)/python -m hack.release $(ARGS)

.PHONY: release-check
release-check: .venv/ready ## The checklist of a release; BASE=python@sha256:...
	@$(BIN)/python -m hack.release_check $(if $(BASE),--base $(BASE)) $(ARGS)

.PHONY: clean
clean: ## Remove .venv and all caches of the tools
	rm -rf .venv .venv-bench .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
