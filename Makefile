SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The local mesh of `make run`.
LISTEN ?= 127.0.0.1:8080
NODES ?= 3
BALANCERS ?= 1
MESH_DIR ?= .mesh
# Which version the tests of mixed versions upgrade from: a commit or tag.
PREVIOUS ?= HEAD~1

# Where `make bench` compares, and further options of `mesh-load compare`: BENCH="--rounds 3 --only balancer,nginx".
# `make bench-growth` has those of `mesh-load growth`.
BENCH ?=
BENCH_REPORT ?= target/bench

# How long `make simulate` goes on.
SIMULATE_SECONDS ?= 240

# Newer releases of these may want a newer compiler than rust-toolchain.toml names.
CARGO_DENY := cargo-deny@0.20.2
CARGO_MACHETE := cargo-machete@0.9.2

INTEGRATION := signaling-integration-tests
WEB_TESTS := $(shell find crates -path '*/web/*' \( -name '*.test.js' -o -name '*.test.mjs' \) | sort)

# Without nextest, one test of real processes at a time, as .config/nextest.toml has it.
ifneq ($(shell command -v cargo-nextest),)
UNIT_TESTS := cargo nextest run --workspace --exclude $(INTEGRATION)
INTEGRATION_TESTS := cargo nextest run -p $(INTEGRATION)
else
UNIT_TESTS := cargo test --workspace --exclude $(INTEGRATION) --lib --bins --tests
INTEGRATION_TESTS := cargo test -p $(INTEGRATION) --lib --tests -- --test-threads=1
endif

##@ Use
.PHONY: help run build
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: deps-run deps-redis ## Start a local mesh with a Redis and the demo page; Ctrl-C ends it (NODES=3 BALANCERS=1 LISTEN=127.0.0.1:8080)
	cargo build -p signaling-node -p signaling-balancer -p signaling-devmesh --bins
	@echo "The demo page: http://$(LISTEN)/ (Ctrl-C stops the mesh)"
	@cargo run -q -p signaling-devmesh --bin mesh-dev -- up \
		--nodes $(NODES) --balancers $(BALANCERS) --listen $(LISTEN) --dir $(MESH_DIR) \
		--redis --balancer-arg=--demo --balancer-arg=--reveal-nodes --node-arg=--reveal-nodes

build: deps-run ## Build all binaries, optimised, into target/release
	cargo build --workspace --bins --release

##@ Develop
.PHONY: fmt check test simulate previous bench bench-growth bench-micro clean
fmt: ## Format the code
	cargo fmt --all

check: deps-check ## Formatting, lints, documentation, licences and bans, unused dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy -p signaling-client --all-targets --features rustls -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	cargo deny --log-level error check bans licenses sources
	cargo machete

test: deps-test ## Unit and property tests, doc tests, simulated meshes, web modules, and the integration tests over real processes
	cargo build --workspace --bins
	$(UNIT_TESTS)
	cargo test --workspace --doc
	cargo test -p signaling-client --features rustls --test wss
	$(MAKE) simulate
ifneq ($(WEB_TESTS),)
	if command -v node >/dev/null; then node --test $(WEB_TESTS); \
	else echo "skipped: the web module tests need node"; [[ "$${CI:-}" != true ]]; fi
endif
	if [[ "$${CI:-}" == true ]]; then .ci/previous --if-known $(PREVIOUS); fi
	$(INTEGRATION_TESTS)

previous: deps-run ## Build the servers of an earlier commit for the tests of mixed versions (PREVIOUS=HEAD~1)
	.ci/previous $(PREVIOUS)

simulate: deps-run ## Simulated meshes with faults, for SIMULATE_SECONDS and at least 1,000 seeds; a failing seed replays
	cargo run -q -p signaling-simulation --bin mesh-sim -- \
		--seeds 0..1000000 --seconds $(SIMULATE_SECONDS) --at-least 1000 --demand

bench: deps-bench ## The balancer beside nginx and HAProxy in front of the same nodes; takes most of an hour (BENCH="--rounds 3")
	cargo build --release -p signaling-node -p signaling-balancer -p signaling-load --bins
	target/release/mesh-load compare --json $(BENCH_REPORT).json --markdown $(BENCH_REPORT).md $(BENCH)

bench-growth: deps-run ## What grows with clients, nodes, sizes of messages and moving sessions; a quarter of an hour (BENCH="--rounds 1")
	cargo build --release -p signaling-node -p signaling-balancer -p signaling-load --bins
	target/release/mesh-load growth --json $(BENCH_REPORT)-growth.json --markdown $(BENCH_REPORT)-growth.md \
		--html $(BENCH_REPORT)-growth.html $(BENCH)

bench-micro: deps-run ## Micro-benchmarks of the owner's lookup and the frame codec
	cargo bench -p signaling-rendezvous -p signaling-edge --bench '*'

clean: ## Remove what was built, and the local mesh's directory
	cargo clean
	rm -rf $(MESH_DIR)

##@ Prepare (the targets above call these; they install only what is missing)
.PHONY: deps-run deps-redis deps-test deps-check deps-bench
deps-run: ## What building needs: Rust and a linker
	@command -v cargo >/dev/null || { echo "Rust is missing: install rustup, see https://rustup.rs" >&2; exit 1; }
	@.ci/deps gcc=cc libc6-dev=cc

deps-redis: ## What rooms that span nodes need: a Redis
	@.ci/deps redis-server

deps-test: deps-run ## What tests need: Redis, a browser, Node.js, Python's websockets, a packet filter, other proxies, a TURN server
	@.ci/deps --optional redis-server chromium chromium-driver=chromedriver nodejs=node python3-websockets \
		nftables=nft iproute2=ip nginx haproxy coturn=turnserver

deps-check: deps-run ## What `make check` needs: rustfmt, clippy, cargo-deny and cargo-machete
	@cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
	@command -v cargo-deny >/dev/null || cargo install --locked $(CARGO_DENY)
	@command -v cargo-machete >/dev/null || cargo install --locked $(CARGO_MACHETE)

deps-bench: deps-run ## What comparing with other proxies needs: nginx and HAProxy
	@.ci/deps --optional nginx haproxy
