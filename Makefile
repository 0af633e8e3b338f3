# Short names for what Meson and Ninja do; the first two are all that most people need.
BUILD ?= build
# The CUDA column takes minutes of nvcc, and is part of the program where there is one.
NVCC := $(or $(shell command -v nvcc),$(wildcard /usr/local/cuda/bin/nvcc))
.PHONY: all run test contract setup setup-test sanitize fuzz bench bench-kernels bench-peers clean

all: setup $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

run: all
	@$(BUILD)/src/lanefold serve $(MODEL)

test: setup-test $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet
	@tools/test $(BUILD)

contract: all
	@faults=$$(tools/contract $(BUILD)) && \
	$(BUILD)/src/lanefold contract --faults $$faults $(CONTRACT) && \
	{ $(BUILD)/src/lanefold contract --backend cuda --faults $$faults $(CONTRACT) || [ $$? = 3 ]; }

sanitize: setup-test
	@tools/sanitize

fuzz:
	@tools/setup fuzz
	@tools/fuzz

bench: setup-test all
	@tools/bench $(BENCHES)

bench-kernels: all
	@$(BUILD)/tests/kernel/linear_bench; linear=$$?; tools/bench layers && exit $$linear

bench-peers: all
	@tools/setup peers
	@tools/peers $(PEERS)

setup:
	@tools/setup run

setup-test:
	@tools/setup test

$(BUILD)/build.ninja:
	@meson setup $(BUILD) $(if $(NVCC),-Dcuda=enabled) >/dev/null

clean:
	rm -rf build build-*
