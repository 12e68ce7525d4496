# SPDX-License-Identifier: Apache-2.0
# A thin front to CMake: the release build, and the commands of the README.

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
BUILD := build/release
MAKEFLAGS += --no-print-directory

all: $(BUILD)/CMakeCache.txt
	cmake --build $(BUILD) -j $(JOBS)

$(BUILD)/CMakeCache.txt:
	cmake --preset release

# Build from nothing, then a checked all-reduce of four ranks through the plugin.
demo:
	tools/deps.sh build
	$(MAKE) $(BUILD)/CMakeCache.txt
	cmake --build $(BUILD) -j $(JOBS) --target nccl-net --target anynet
	tools/demo.sh $(BUILD)

# The quick tests, in a release and an ASan+UBSan build: under six minutes on 2 cores.
check:
	tools/deps.sh build check package
	tests/check.sh quick

# All tests: two hours on 2 cores. FUZZ_SECONDS=5 shortens the fuzzers.
check-all:
	tools/deps.sh build check package
	tests/check_all.sh quick rest kinds tsan fuzz clang lint coverage aarch64 guest nccl mutations

# Bring what the fuzzers have found (in build/fuzz, by ctest or by hand) into tests/fuzz/corpus, as far as it
# reaches code that the corpus does not.
fuzz-merge:
	tools/deps.sh build check
	cmake --preset fuzz
	cmake --build build/fuzz -j $(JOBS)
	cmake --build build/fuzz --target fuzz-merge

# Plants the faults of tests/mutations.def in a copy of the sources: the tests named there have to notice
# each of them. NAMES="hello-.*" for some of them.
mutations:
	tools/deps.sh build check
	tests/mutations.sh $(NAMES)

# Random faults for an hour, bytes verified: SECONDS_=600 for less, SEED=7 for the same again.
soak:
	tools/deps.sh build check
	tests/faults/soak.sh

# The plugin under virtual time, a minute of random faults: SEEDS=1000, HOURS=2, or SEED=7 for one that is printed.
simulate:
	tools/deps.sh build check
	tests/sim/simulate.sh

# Of these the tests that need a kernel of their own, in an emulated machine: the first time this
# downloads a kernel package of 100 MB.
guest:
	tools/deps.sh build check
	tests/check.sh guest

# The real NCCL on GPUs in software, over the plugin: the first time this downloads NCCL's source, 1.3 MB, and
# compiles it. Needs the headers of CUDA 13 (CUDA_HOME).
nccl:
	tools/deps.sh build check
	tests/check.sh nccl

# All figures, CSV and plots: BENCH="--quick --only lat" for some of them (bench/run.sh).
bench:
	tools/deps.sh build bench
	$(MAKE) all
	bench/run.sh $(BENCH) $(BUILD)

# build/release/packages: a .deb and an .rpm of the plugin, the tool and the headers each.
packages:
	tools/deps.sh build package
	$(MAKE) all
	cd $(BUILD) && cpack -G DEB && cpack -G RPM

# In the same place: a tarball and a wheel, for who is not root.
dist:
	tools/deps.sh build package
	$(MAKE) all
	cmake --build $(BUILD) --target dist

install: all
	cmake --install $(BUILD) --prefix $(PREFIX)

deps:
	tools/deps.sh build

clean:
	rm -rf build

.PHONY: all demo check check-all mutations fuzz-merge simulate soak guest nccl bench packages dist install deps clean
