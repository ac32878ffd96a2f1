# The front door; CMake presets do the work. `make` alone lists the targets.

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 10
SOAK_SECONDS ?= 30
CHAOS_SEEDS ?= 1000
CLUSTER_KILLS ?= 200
CLUSTER_GATEWAY_KILLS ?= 50

.DEFAULT_GOAL := help
.PHONY: help deps build test tsan demo demo-eval bench bench-activated bench-affinity bench-embeddings bench-policies bench-ramp bench-vocabularies check format tidy-full soak fuzz chaos chaos-full cluster-chaos package package-test clean

help: ## List these targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	  awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

deps: ## Install the system packages that are missing (tools/deps.sh --list)
	@tools/deps.sh

build: deps ## Build build/release/aril
	cmake --preset release
	cmake --build build/release --target aril -j $(JOBS)

# Optimized: what computes on the CPU, and the whole program. The rest would only be the same again.
RELEASE_TESTS = fidelity kernels model noninterference soak
empty :=
space := $(empty) $(empty)

test: deps ## All tests under ASan and UBSan; those of numbers, and end to end, optimized as well
	@tools/venv.sh
	cmake --preset debug
	cmake --build build/debug -j $(JOBS)
	ctest --test-dir build/debug -j $(JOBS) --output-on-failure
	cmake --preset release
	cmake --build build/release -j $(JOBS) --target aril benchmarks $(RELEASE_TESTS:%=%_test)
	ctest --test-dir build/release -j $(JOBS) --output-on-failure \
	  -R '^(e2e|$(subst $(space),|,$(RELEASE_TESTS)))\.'

tsan: deps ## The tests with threads in them, under the thread sanitizer
	cmake --preset tsan
	cmake --build build/tsan -j $(JOBS) --target base_test engine_test gateway_test runner_test
	ctest --test-dir build/tsan -j $(JOBS) --output-on-failure -R '^(base|engine|gateway|runner)\.'

demo: deps ## Serve a small model with eight adapters until Ctrl-C
	@tools/demo.sh

demo-eval: build ## Every adapter of the demo on every task, mixed and alone (a few minutes)
	@python3 tools/demo/evaluate.py --json build/demo/evaluation.json

bench: build ## Kernels against the machine's limits, then the other benchmark programs (docs/benchmarks.md)
	cmake --build build/release -j $(JOBS) --target benchmarks
	build/release/aril bench kernels
	@tools/bench.sh

bench-activated: build ## Adapters asked about a text that the base model has read: activated LoRA beside LoRA, over HTTP (ten minutes)
	@tools/bench_activated.py --json build/bench/activated.json

bench-affinity: build ## Conversations with a cluster whose scheduler looks for who has read them, and without that (fifteen minutes)
	@tools/bench_affinity.py --json build/bench/affinity.json

bench-embeddings: build ## Embeddings beside completions, and of adapters beside the base model, over HTTP (ten minutes)
	@tools/bench_embeddings.py --json build/bench/embeddings.json

bench-policies: build ## Five times too many requests, and a noisy tenant, over HTTP (half an hour)
	@tools/bench_policies.py --json build/bench/policies.json

bench-ramp: build ## Rising and falling load on four real runners and in simulation, as root (half an hour)
	@tools/bench_ramp.py --json build/bench/ramp.json

bench-vocabularies: build ## Adapters with an embedding and lm_head of their own, over HTTP (ten minutes)
	@tools/bench_vocabularies.py --json build/bench/vocabularies.json

check: deps ## Formatting, layers, header self-containment, instruction-set leaks, clang-tidy
	@tools/lint.sh

format: deps ## Rewrite the sources with clang-format
	@tools/lint.sh --fix format

tidy-full: deps ## clang-tidy with the static analyzer, over everything
	@tools/lint.sh tidy-full

soak: build ## Random requests and disconnects; SOAK_SECONDS=30
	@SOAK_SECONDS=$(SOAK_SECONDS) tools/soak.py

chaos: build ## Simulated clusters under faults; CHAOS_SEEDS=1000
	build/release/aril simulate --scenario chaos --seeds $(CHAOS_SEEDS)

chaos-full: build ## 100,000 of them (an hour or two)
	build/release/aril simulate --scenario chaos --seeds 100000

cluster-chaos: build ## Kills and pauses processes of a real cluster under load; CLUSTER_KILLS=200 (an hour or so)
	@tools/cluster_chaos.py --kills $(CLUSTER_KILLS) --gateway-kills $(CLUSTER_GATEWAY_KILLS) --json build/cluster-chaos.json

fuzz: deps ## Every fuzz target for FUZZ_SECONDS=10
	@FUZZ_SECONDS=$(FUZZ_SECONDS) JOBS=$(JOBS) tools/fuzz.sh

package: deps ## A .deb and a portable tarball in build/package
	@tools/deps.sh --group package
	@JOBS=$(JOBS) tools/package.sh

package-test: package ## Install, run and remove both in a clean Debian 12 (as root; else it says what it skips)
	@tools/deps.sh --group package-test
	@tools/package/test.sh

clean: ## Delete build/
	rm -rf build
