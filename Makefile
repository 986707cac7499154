# Every command of the project. `make` alone prints this list.
.DEFAULT_GOAL := help
.PHONY: help demo test steady install deb rpm image packages lint fmt bench fuzz swarm hostile kill model models tsan interop suites
# The steps of a target depend on each other, and cargo itself uses every core.
.NOTPARALLEL:

SEEDS ?= 10000
FUZZ_SECONDS ?= 60
HOSTILE_SECONDS ?= 600
KILL_POINTS ?= 200
MODEL_SECONDS ?= 600
MODEL ?=
INTEROP_SECONDS ?= 20
SUITE_SECONDS ?= 300
RUNS ?= 10
PREFIX ?= /usr/local

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## demonstrate: two nodes on this machine, two sites with a long link, a file system across it
	@scripts/demo.sh

test: ## all that CI runs: lint, then every test; those with network namespaces need root
	@scripts/test.sh

steady: ## run all tests RUNS=10 times, half of them beside busy processes; ONLY=fuse picks some
	@RUNS=$(RUNS) scripts/steady.sh "$(ONLY)"

install: ## install under PREFIX=/usr/local, in DESTDIR= for a package: binary, names, pages, completion, units
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install.sh

deb: ## a package for Debian and Ubuntu in target/packages
	@scripts/package.sh deb

rpm: ## a package for distributions with rpm in target/packages
	@scripts/package.sh rpm

image: ## an OCI image of a node, from the package for Debian
	@scripts/package.sh image

packages: ## install, run, upgrade and remove the packages in clean roots; needs root and the network
	@scripts/packages.sh

lint: ## formatting, clippy, documentation, the repository's own rules, licences, advisories
	@scripts/lint.sh

fmt: ## format every source
	@cargo fmt --all

bench: ## measure against iperf3, haproxy, TCP and other file systems; ONLY=lnet picks one family
	@scripts/bench.sh "$(ONLY)"

fuzz: ## run every fuzz target for FUZZ_SECONDS=60; ONLY=decode_hello picks one
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz.sh $(ONLY)

swarm: ## simulate SEEDS=10000 random clusters; a failure prints its seed
	@for kind in "" --rails --routed --hostile; do \
		cargo run --locked --release -p fulmar -- sim swarm $$kind --seeds 0..$(SEEDS) || exit 1; \
	done

hostile: ## attack a node in random ways for HOSTILE_SECONDS=600; SEED=7 repeats a failure
	@HOSTILE_SECONDS=$(HOSTILE_SECONDS) scripts/hostile.sh $(SEED)

kill: ## kill servers under load at KILL_POINTS=200 random points; SEED=7 repeats a failure
	@KILL_POINTS=$(KILL_POINTS) scripts/kill.sh $(SEED)

model: ## compare random operations on files with a model for MODEL_SECONDS=600; MODEL='--seed 7' repeats a failure
	@MODEL_SECONDS=$(MODEL_SECONDS) scripts/model.sh $(MODEL)

models: ## test the communication between the driver's threads in all interleavings
	@scripts/models.sh

tsan: ## run the driver's tests under ThreadSanitizer
	@scripts/tsan.sh

interop: ## check against real Lustre nodes: NID=10.0.0.1@tcp, or LUSTRE_MGS=10.0.0.1@tcp:/fs by two mounts
	@INTEROP_SECONDS=$(INTEROP_SECONDS) scripts/interop.sh "$(NID)" "$(LUSTRE_MGS)"

suites: ## run suites of others on a mount of our servers, SUITE_SECONDS=300 each; ONLY=fsx picks one
	@SUITE_SECONDS=$(SUITE_SECONDS) scripts/suites.sh $(ONLY)
