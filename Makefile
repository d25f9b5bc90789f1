# `make run` starts a node, `make test` runs every test; both install what is missing first. `make verify` is what a
# change has to pass and never writes to the sources.
#
# Everything is built in the release profile: one profile, because RocksDB takes minutes to build in each.

CARGO ?= cargo
SEED ?=
SEEDS ?= 1000
NODES ?= 1
WORKS ?= all
ARGS ?=

.PHONY: run test lint fmt sim bench verify vectors setup build

run: setup ## Start a node for development; ARGS='--brand kubernetes'
	@echo "==> building orch (the first time takes some minutes, most of it RocksDB)"
	$(CARGO) build --release --package orch-node --bin orch
	exec $(CARGO) run --quiet --release --package orch-node --bin orch -- dev $(ARGS)

test: setup build ## Run every test
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
		set -x; exec $(CARGO) nextest run --release --workspace --no-fail-fast $(ARGS); \
	else \
		set -x; exec $(CARGO) test --release --workspace --no-fail-fast $(ARGS); \
	fi

build: setup
	@echo "==> building the programs that the tests run (the first time takes some minutes, most of it RocksDB)"
	$(CARGO) build --release --workspace --bins

lint: setup ## Formatting and lints, as errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings

fmt: ## Format the sources
	$(CARGO) fmt --all

verify: lint test ## What a change has to pass

sim: setup ## Simulate many seeds (SEEDS=1000), or replay one (SEED=17)
	$(CARGO) run --release --package orch-cluster-tests --bin sim -- $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(ARGS)

bench: build ## Measure a cluster started for it (NODES=1, WORKS=all), beside the reference's figures
	$(CARGO) run --quiet --release --package orch-cluster-tests --bin bench -- $(WORKS) --start $(NODES) $(ARGS)

vectors: build ## Replay the recorded scenarios and print every difference; ARGS='--area crud'
	$(CARGO) run --quiet --release --package orch-cluster-tests --bin vectors -- --start $(ARGS)

setup:
	@.ci/setup
