SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Options of `make run`.
LISTEN ?= 127.0.0.1:8080
NODES ?= 3
BALANCERS ?= 1
MESH_DIR ?= .mesh

# Options of `mesh-load compare` in `make bench`, for example "--rounds 3 --only balancer,nginx",
# and the path of its reports without extension.
BENCH ?=
BENCH_REPORT ?= target/bench

# Duration of `make simulate`, in seconds. The nine kinds of worlds have equal shares.
SIMULATE_SECONDS ?= 25

# First seed of `make simulate`.
FIRST_SEED ?= 0

# Targets of `make fuzz`, and the duration of each in seconds.
TARGET ?= $(patsubst fuzz/fuzz_targets/%.rs,%,$(wildcard fuzz/fuzz_targets/*.rs))
SECONDS ?= 600

# Newer releases may need a newer compiler than rust-toolchain.toml selects.
CARGO_FUZZ := cargo-fuzz@0.13.2

INTEGRATION := signaling-integration-tests
WEB_TESTS := $(shell find crates -path '*/web/*' \( -name '*.test.js' -o -name '*.test.mjs' \) | sort)

# Tests build one selection of packages and targets. Another selection has other features of
# third-party crates, so cargo would rebuild most of them.
TEST_BUILD := cargo build --workspace --bins --tests --examples
# Selects the same features for a single program, by adding one test of the workspace.
BUILD_AS_FOR_TESTS := cargo build --workspace --test golden
BUILT := $${CARGO_TARGET_DIR:-target}/debug

# Without nextest, tests of real processes run one at a time.
ifneq ($(shell command -v cargo-nextest),)
UNIT_TESTS := cargo nextest run --workspace -E 'not package($(INTEGRATION))'
INTEGRATION_TESTS := cargo nextest run --workspace -E 'package($(INTEGRATION))'
else
UNIT_TESTS := cargo test --workspace --exclude $(INTEGRATION) --lib --bins --tests
INTEGRATION_TESTS := cargo test -p $(INTEGRATION) --lib --tests -- --test-threads=1
endif

##@ Use
.PHONY: help run build
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^##  / { print substr($$0, 3) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: deps-run ## Start a local mesh with the demo page; Ctrl-C ends it (NODES=3 BALANCERS=1 LISTEN=127.0.0.1:8080)
	cargo build -p signaling-node -p signaling-balancer -p signaling-devmesh --bins
	@cargo run -q -p signaling-devmesh --bin mesh-dev -- up \
		--nodes $(NODES) --balancers $(BALANCERS) --listen $(LISTEN) --dir $(MESH_DIR)

build: deps-run ## Build all binaries, optimised, into target/release
	cargo build --workspace --bins --release

##@ Develop
.PHONY: fmt check advisories package test test-scripts test-matchbox conformance fuzz simulate bench clean
fmt: ## Format the code
	cargo fmt --all

check: deps-check ## Check formatting, lints, documentation, licences and bans, unused dependencies, packages, scripts, manifests, alerts, texts
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --lib --examples
	.ci/together '$(MAKE) package' .ci/lint

advisories: ## Check dependencies for published advisories; downloads their database, so make check does not
	"$$(.ci/tool cargo-deny)" --log-level error check advisories

package: deps-package ## Build the packages of both SDKs in target/package, and check their files, types and sizes
	@if command -v npm >/dev/null; then .ci/package; \
	else echo "skipped: the packages need npm"; [[ "$${CI:-}" != true ]]; fi

test: deps-test ## Run all tests: unit, property and doc tests, simulated meshes, web modules, scripts, and integration tests on real processes
	$(TEST_BUILD)
	$(UNIT_TESTS)
	.ci/together 'cargo test --workspace --doc' '$(MAKE) test-scripts'
	$(MAKE) simulate
	$(INTEGRATION_TESTS)

test-scripts: ## Test the web modules, and the scripts of deployment and release
ifneq ($(WEB_TESTS),)
	@if command -v node >/dev/null; then node --test $(WEB_TESTS); \
	else echo "skipped: the web module tests need node"; [[ "$${CI:-}" != true ]]; fi
endif
	@if command -v bats >/dev/null; then bats deploy/tests .ci; \
	else echo "skipped: the tests of scripts need bats"; [[ "$${CI:-}" != true ]]; fi

test-matchbox: deps-run ## Test matchbox's own client against real processes; its build takes minutes
	cargo build --workspace --bins
	MATCHBOX=1 cargo test -p $(INTEGRATION) --test promises -- --test-threads=1 matchbox_players

simulate: deps-run ## Simulate nine kinds of meshes with faults from seed FIRST_SEED (default 0), for SIMULATE_SECONDS and at least 800 seeds; a failing seed can be replayed
	$(BUILD_AS_FOR_TESTS) --quiet --bin mesh-sim
	simulate=($(BUILT)/mesh-sim --seeds $(FIRST_SEED).. --seconds $$((($(SIMULATE_SECONDS) + 8) / 9))); \
	"$${simulate[@]}" --at-least 200 --demand; \
	for preset in rooms operators journal large parted isolated hasty skewed; do "$${simulate[@]}" --preset $$preset --at-least 75; done

conformance: deps-run ## Test the WebSocket code with Autobahn's fuzzing client; takes half a minute (CONFORMANCE=--quick)
	.ci/conformance $(CONFORMANCE)

fuzz: deps-fuzz ## Fuzz the readers of untrusted bytes (TARGET=frames SECONDS=600); fails on a finding and keeps its input
	for target in $(TARGET); do .ci/fuzz $$target $(SECONDS); done

bench: deps-bench ## Compare the balancer with nginx and HAProxy in front of the same nodes; takes most of an hour (BENCH="--rounds 3")
	cargo build --release -p signaling-node -p signaling-balancer -p signaling-load --bins
	target/release/mesh-load compare --json $(BENCH_REPORT).json $(BENCH) >$(BENCH_REPORT).md && cat $(BENCH_REPORT).md

clean: ## Delete the build and the directory of the local mesh
	cargo clean
	rm -rf $(MESH_DIR)

##@ Deploy (deploy/README.md)
##  CLUSTER=signaling  name of the kind cluster; its kubeconfig is a separate file in target/deploy
##  CONTEXT=NAME       context of your own cluster, instead of kind; the current context has no effect
##  REGISTRY=HOST/PATH registry of your own cluster; `make images` pushes the image there
##  METRICS=0          no metrics server in the kind cluster: its autoscalers keep their minimum
##  OVERLAY=kind       folder of deploy/overlays (default: kind, with CONTEXT production)
##  TAG=...            tag of the image (default: made from the git commit)
##  PORT=8080          port of the demo on this machine, for a new kind cluster
##  PLATFORMS=...      platforms of the image with REGISTRY (default: linux/amd64,linux/arm64)
##  LOAD="steady ..."  options of mesh-load for load-kind
##  DOCKER=docker KIND=kind KUBECTL=kubectl  programs to use
.PHONY: deploy undeploy images image-archive manifests load-kind test-image test-kind
deploy: ## Deploy a mesh to your own cluster or to kind (creates the cluster if it is missing); prints the demo's address
	@deploy/bin/deploy

undeploy: ## Delete the mesh, its namespace with your Secrets, and a kind cluster that make deploy created
	@deploy/bin/undeploy

images: ## Build the image with docker; with REGISTRY build it for both architectures and push it
	@deploy/bin/images

image-archive: deps-run ## Build the image without docker, for kind load image-archive
	@deploy/bin/image-archive

manifests: ## Print the manifests of OVERLAY
	@deploy/bin/manifests

load-kind: ## Run mesh-load as a Job in the cluster (LOAD="calls --rate 200"); the mesh must require neither tokens nor TLS
	@deploy/bin/load-kind

test-image: deps-test ## Test the image archive: start it in network namespaces and connect clients; needs root, takes minutes
	archive=$$(deploy/bin/image-archive) && deploy/tests/image "$$archive"

test-kind: ## Deploy to a kind cluster of its own, break it under load, and print what clients noticed; takes ten minutes
	@deploy/tests/kind $(PARTS)

##@ Release (CONTRIBUTING.md)
.PHONY: dist test-dist release
dist: deps-dist ## Build the archive of static programs, the Debian package, SBOM and checksums in target/dist (ARCH=amd64 or arm64)
	@deploy/bin/dist

test-dist: deps-dist deps-test ## Test the files of make dist: start the unpacked archive, and run the package in a container; needs root
	@deploy/tests/dist

release: $(if $(DRY_RUN),,deps-package deps-dist) ## Write VERSION=x.y.z into manifests and CHANGELOG.md, and build packages and the files of make dist (DRY_RUN=1 only prints, COMMIT=1 commits and tags)
	@.ci/release

##@ Prepare (the targets above call these; they install only what is missing)
.PHONY: deps-run deps-test deps-check deps-package deps-dist deps-bench deps-manifests deps-fuzz
deps-run: ## Install what building needs: a linker; checks for Rust
	@command -v cargo >/dev/null || { echo "Rust is missing: install rustup, see https://rustup.rs" >&2; exit 1; }
	@.ci/deps gcc=cc libc6-dev=cc

deps-manifests: ## Install what checks of manifests need: newer kubectl and kind, and the schemas of Kubernetes
	@for tool in kubectl kind kubernetes-validate; do \
		.ci/tool $$tool >/dev/null || [[ "$${CI:-}" != true ]]; \
	done

deps-test: deps-run deps-manifests ## Install what tests need: Redis, a browser, Node.js, npm, Python's websockets and redis, network namespaces, other proxies, a TURN server, certificates, Prometheus, bats, curl, jq, yq, systemd and dpkg
	@.ci/deps openssl
	@.ci/deps --optional redis-server chromium chromium-driver=chromedriver nodejs=node npm python3-websockets \
		python3-redis iproute2=ip nginx haproxy coturn=turnserver prometheus bats curl jq yq systemd=systemd-analyze procps=pgrep \
		dpkg=dpkg-deb binutils=strip

deps-check: deps-run deps-manifests ## Install what make check needs: rustfmt, clippy and linters
	@.ci/deps --optional shellcheck jq yq python3 prometheus=promtool
	@cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@cargo clippy --version >/dev/null 2>&1 || rustup component add clippy

deps-package: deps-run ## Install what packages need: npm and Node.js
	@.ci/deps --optional nodejs=node npm

deps-dist: deps-run ## Install what make dist needs: Python, and tools of Debian packages
	@.ci/deps python3 dpkg=dpkg-deb

deps-bench: deps-run ## Install what make bench needs: nginx and HAProxy, and openssl for a certificate
	@.ci/deps --optional nginx haproxy openssl

deps-fuzz: deps-run ## Install what make fuzz needs: cargo-fuzz, and a C++ compiler for libFuzzer
	@.ci/deps g++=c++
	@command -v cargo-fuzz >/dev/null || cargo install --locked $(CARGO_FUZZ)
