# `make run` starts a node, `make test` runs every test; both install what is missing first. `make verify` is what a
# change has to pass and never writes to the sources.
#
# Everything but packages (deploy/release.sh) is built in the release profile: dependencies take minutes to build in each. Programs are
# named without `--package`, so that cargo settles the features of dependencies for the whole workspace every time: with a
# package named it settles them anew, and builds what depends on the difference again.

# cargo with the RocksDB that is built once, in groups (.ci/rocksdb). What compiles nothing calls cargo itself.
CARGO ?= $(CURDIR)/.ci/cargo
SEED ?=
PLANT ?=
SEEDS ?= 1000
CRASHES ?= 500
CASES ?= 1000000
NIGHT_SEEDS = $(if $(filter command line,$(origin SEEDS)),$(SEEDS),20000)
HOURS ?=
NODES ?= 1
WORKS ?= all
KILLS ?= 200
SERVICES ?= 5000
OBJECTS ?= 20000
TAG ?=
# The revision that `make upgrade` begins with: the last tag before this commit.
FROM ?= $(shell git describe --tags --abbrev=0 HEAD^ 2>/dev/null)
TARGET ?= $(basename $(notdir $(wildcard api/fuzz/fuzz_targets/*.rs)))
SECONDS ?= 60
ARGS ?=

# Assertions and overflow checks of the engine and of our own crates, in simulations and tests. Nothing else is built
# anew for it, RocksDB least of all, and what is released has none (docs/decisions/0017).
CHECKED = --config .cargo/checked.toml
SIM = $(CARGO) $(CHECKED) test --release --test search --

# Where the corpus of public definitions lies (cluster-tests/corpus/README.md); it is not in this repository.
CORPUS ?=

.PHONY: run test lint fmt alerts alerts-live sim sim-night sim-plants sim-scheduler sim-scheduling sim-definitions sim-webhooks oracle expressions power bench bench-scheduler failover upgrade attacks services move microbench prices instructions verify vectors corpus fuzz setup build release

run: setup ## Start a node for development with a scheduler; ARGS='--brand kubernetes'
	@echo "==> building orch (the first time takes some minutes, most of it RocksDB)"
	$(CARGO) build --release --bin orch --bin scheduler
	exec $(CARGO) run --quiet --release --bin orch -- dev $(ARGS)

# One build makes the tests and the `orch` that tests of processes start. Those run after a failure, too.
# Properties are tried with the same cases each time, so that a change fails by what it changes; `make expressions` and `make fuzz`
# search further.
test: export PROPTEST_RNG_SEED ?= 1
test: setup ## Run every test
	@echo "==> building and running the tests (the first time takes some minutes, most of it RocksDB)"
	@if cargo nextest --version >/dev/null 2>&1; then \
		set -x; exec $(CARGO) nextest run $(CHECKED) --release --workspace --no-fail-fast $(ARGS); \
	else \
		set -x; exec $(CARGO) $(CHECKED) test --release --workspace --no-fail-fast $(ARGS); \
	fi

# What `/version` tells of the sources (node/src/built.rs); nothing outside of a working copy.
build: export ORCH_GIT_COMMIT = $(shell git rev-parse HEAD 2>/dev/null)
build: export ORCH_GIT_TREE_STATE = $(if $(ORCH_GIT_COMMIT),$(if $(shell git status --porcelain --untracked-files=no),dirty,clean))
build: export ORCH_BUILD_DATE = $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
build: setup
	@echo "==> building the programs (the first time takes some minutes, most of it RocksDB)"
	$(CARGO) build --release --workspace --bins

release: ## Build archive, Debian package and checksums of a tag, reproducibly (TAG=v0.1.0)
	deploy/release.sh "$(TAG)" $(ARGS)

lint: setup ## Formatting, lints and dependencies, as errors
	cargo fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings
	@if cargo deny --version >/dev/null 2>&1; then \
		set -x; exec cargo deny check; \
	else \
		echo "==> cargo-deny is not installed: dependencies are not checked (cargo install cargo-deny)"; \
	fi

fmt: ## Format the sources
	cargo fmt --all

verify: lint test ## What a change has to pass

alerts: ## Check the alert rules and run their tests (promtool, in Debian's package prometheus)
	promtool check config --syntax-only deploy/prometheus/prometheus.yml
	promtool check rules deploy/alerts/*.yaml
	promtool test rules deploy/alerts/tests/*.yaml

# Needs strace and openssl beside `prometheus`, and takes some fifteen minutes.
alerts-live: build ## Evaluate rules and dashboards against three members, and make alerts fire by their faults (ARGS='--only OrchMemberDown')
	python3 deploy/alerts/faults.py --programs target/release $(ARGS)

sim: setup ## Simulate many seeds (SEEDS=1000), or replay one (SEED=17)
	$(SIM) $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(ARGS)

sim-night: setup ## Simulate fresh seeds on every core (SEEDS=20000, or HOURS=8), and write sim-report.md
	$(SIM) --fresh --jobs 0 --seconds 4 --report $(CURDIR)/sim-report.md \
		$(if $(HOURS),--hours $(HOURS) --seeds 1000000000,--seeds $(NIGHT_SEEDS)) $(ARGS)

sim-plants: setup ## Plant every known bug in simulated clusters, and print which seed finds it
	$(SIM) --plants --jobs 0 --seconds 12 $(ARGS)

sim-scheduler: setup ## Simulate scheduler processes on many seeds (SEEDS=1000), replay one (SEED=17), or plant a bug (PLANT=BindsByName)
	$(if $(PLANT),PLANT=$(PLANT),$(if $(SEED),SEED=$(SEED),SEEDS=$(SEEDS))) $(CARGO) test --release -p orch-scheduler --lib -- \
		--nocapture simulation::tests::$(if $(PLANT),planted,no_seed)

sim-scheduling: setup ## Simulate scheduler processes over simulated clusters (SEEDS=1000), replay a seed (SEED=17), or plant a bug (PLANT=trusts-lost)
	$(if $(PLANT),PLANT=$(PLANT),$(if $(SEED),SEED=$(SEED),SEEDS=$(SEEDS))) $(CARGO) $(CHECKED) test --release --test sim_scheduling -- \
		--nocapture $(if $(PLANT),planted,schedulers_over)

sim-definitions: setup ## Simulate definitions of custom kinds over simulated clusters (SEEDS=1000), replay a seed (SEED=17), or plant a bug (PLANT=keeps-tables)
	$(if $(PLANT),PLANT=$(PLANT),$(if $(SEED),SEED=$(SEED),SEEDS=$(SEEDS))) $(CARGO) $(CHECKED) test --release --test sim_definitions -- \
		--nocapture $(if $(PLANT),planted,definitions_of)

sim-webhooks: setup ## Simulate webhooks and aggregated servers over simulated clusters (SEEDS=1000), replay a seed (SEED=17), or plant a bug (PLANT=sends-again)
	$(if $(PLANT),PLANT=$(PLANT),$(if $(SEED),SEED=$(SEED),SEEDS=$(SEEDS))) $(CARGO) $(CHECKED) test --release --test sim_webhooks -- \
		--nocapture $(if $(PLANT),planted,webhooks_of)

oracle: setup ## Compare the scheduler's plans with a slow oracle on random clusters (SEEDS=100000), or replay one (SEED=17)
	$(if $(SEED),SEED=$(SEED),SEEDS=$(SEEDS)) $(CARGO) test --release -p orch-scheduler --test oracle

# In the profile and with the checks of the tests, so that nothing more is built than they build.
expressions: setup ## Compare the evaluator of expressions with a slow one (CASES=1000000)
	PROPTEST_CASES=$(CASES) $(CARGO) $(CHECKED) test --release -p orch-expression --lib -- oracle

power: setup ## Lose power under the disk of a member (CRASHES=500); repeats a kind of run with SEED=17
	$(CARGO) run --release --bin power -- --crashes $(CRASHES) $(if $(SEED),--seed $(SEED)) $(ARGS)

bench: build ## Measure a cluster started for it (NODES=1, WORKS=all), beside the reference's figures; by the thousand: WORKS=watch-idle|watch-storm|kubelets|definitions|policies
	$(CARGO) run --quiet --release --bin bench -- $(WORKS) --start $(NODES) $(ARGS)

bench-scheduler: setup ## Measure the scheduler without a server: planner, queue and memory; one shape with ARGS=affinity
	$(CARGO) bench -p orch-scheduler --bench plan -- $(ARGS)
	$(CARGO) bench -p orch-scheduler --bench queue
	$(CARGO) bench -p orch-scheduler --bench memory

failover: build ## Kill the leader of three nodes again and again (KILLS=200) and print how long writes pause
	$(CARGO) run --quiet --release --bin failover -- --kills $(KILLS) $(ARGS)

upgrade: build ## Replace the program of three members under load, and try to go back (FROM=v0.1.0, a tag or any revision; else the last tag)
	@test -n "$(FROM)" || { echo "there is no tag before this commit: name a revision, make upgrade FROM=REVISION" >&2; exit 1; }
	program=$$(.ci/revision "$(FROM)") && $(CARGO) run --quiet --release --bin upgrade -- --from "$$program" $(ARGS)

attacks: build ## Attack a node and its scheduler, and print memory, CPU and a second client's waits; some with ARGS='selectors devices'
	$(CARGO) run --quiet --release --bin attacks -- $(ARGS)

# The import from one node into another, killed twice on its way (node/tests/process/moving.rs).
move: setup ## Copy one node's objects into another by orch import, killed twice (OBJECTS=20000)
	ORCH_MOVE_OBJECTS=$(OBJECTS) $(CARGO) test --release -p orch-node --test process -- moving:: --nocapture $(ARGS)

services: setup ## Create services through three nodes at once (SERVICES=5000) and kill the leader in between
	SERVICES=$(SERVICES) $(CARGO) $(CHECKED) test --release --package orch-cluster-tests --test processes -- services:: --nocapture

microbench: setup ## Measure what changing one object costs, without a server; other parts with BENCH=path|bodies|authorization|admission|tokens|expressions|spans
	$(CARGO) bench --bench $(or $(BENCH),objects) $(ARGS)

# In the profile and with the checks of the tests, so that nothing but the program itself is built behind them.
prices: setup ## Hold the prices of expressions and patterns against the clock; fails where one is wrong by more than two
	$(CARGO) $(CHECKED) test --release --bench price

# Needs valgrind. In the release profile, as `make microbench`.
instructions: setup ## Count the instructions of each step of a request (callgrind); fails where one takes a tenth more than api/benches/path.txt says; ARGS=--write
	CARGO="$(CARGO)" .ci/instructions $(ARGS)

corpus: build ## Replay the whole corpus of public definitions against a node (CORPUS=DIR; ARGS='--project kro')
	.ci/corpus "$(CORPUS)" $(ARGS)

vectors: build ## Replay the recorded scenarios and print every difference; ARGS='--area crud'
	$(CARGO) run --quiet --release --bin vectors -- --start $(ARGS)

fuzz: setup ## Fuzz each target for a minute (SECONDS=60), or one (TARGET=decode); needs nightly and cargo-fuzz
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { \
		echo "a nightly compiler or cargo-fuzz is missing: rustup toolchain install nightly; cargo install cargo-fuzz" >&2; exit 1; }
	set -e; cd api; for target in $(TARGET); do \
		$(CARGO) +nightly fuzz run $$target -- -max_total_time=$(SECONDS) $(ARGS); done

setup:
	@.ci/setup
