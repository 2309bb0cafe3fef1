# Short targets that call CMake, pip and pytest; `make help` describes them. All output goes to .venv and build/.
# Needs Python >= 3.10 and g++ or clang; CMake and Ninja are installed by pip if missing.
PYTHON ?= python3
JOBS ?= 2
# Files of tests side by side, in pytest's order: the longest, which compile, come first.
SIDE_BY_SIDE = -n $(JOBS) --dist loadfile --no-loadscope-reorder
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
export PATH := $(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
TOOLS := $(VENV)/.tools
INSTALLED := $(VENV)/.installed
READERS := $(CURDIR)/build/readers
# $(call step,NAME,PLACE) COMMAND: prints NAME, and at the end what it took. PLACE: its number of the steps of `make test`.
step = $(PYTHON) tests/tools/step.py "$(1)" $(if $(and $(TOTAL),$(2)),--of $(2)/$(TOTAL)) --
NATIVE := $(shell find CMakeLists.txt pyproject.toml cmake csrc -type f 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help demo install build test test-cpp test-python check lint format sanitize sanitize-python sanitize-cuda bench stubs docs clean test-integrations test-nightly test-all test-interpreters test-aarch64 gpu-check metal-check test-macos wheels test-wheels release

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The environment with all build and test tools; made once, again when pyproject.toml changes.
$(TOOLS): pyproject.toml
	@echo "Making an environment in .venv and installing build and test tools into it: about a minute, once."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "Python >= 3.10 is needed; choose one with: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  $(PYTHON) -m pip install --user virtualenv && $(PYTHON) -m virtualenv $(VENV); }
	$(BIN)/python -m pip install -q --upgrade "pip>=23.1"
	$(BIN)/python tests/tools/requirements.py build test demo dev | $(call step,install tools) xargs -d '\n' $(BIN)/pip install -q
	@command -v cmake >/dev/null || $(BIN)/pip install -q "cmake>=3.21"
	@command -v ninja >/dev/null || $(BIN)/pip install -q ninja
	@touch $@

# fastprof itself, editable: Python files are used from where they lie, _core is built again when its sources change.
$(INSTALLED): $(TOOLS) $(NATIVE)
	@echo "Building fastprof: one to five minutes, then only after changes of its C++ sources."
	$(call step,build fastprof) $(BIN)/pip install -q --no-build-isolation --no-deps -C build-dir=build/editable -e .
	@touch $@

install: $(INSTALLED)  ## install fastprof, editable, into .venv

demo: $(INSTALLED)  ## build, then profile real work and print the result
	@mkdir -p build/demo
	@echo "Building the C++ demo: some seconds."
	$(CXX) -std=c++17 -O2 $$($(BIN)/python -m fastprof config --includes) examples/demo.cpp -o build/demo/demo -pthread -ldl
	build/demo/demo build/demo
	$(BIN)/python examples/digits.py --out build/demo

build: $(TOOLS)  ## build the C++ tests (preset release)
	cmake --preset release -DPython_EXECUTABLE=$(BIN)/python
	$(call step,compile the C++ tests,1) cmake --build --preset release -j $(JOBS)

test-cpp: build  ## run the C++ unit and stress tests
	$(call step,C++ tests,2) ctest --preset release -j $(JOBS)

test-python: $(INSTALLED)  ## run the Python tests, including those that run compilers
	status=0; \
	$(call step,Python tests,3) $(BIN)/python -m pytest -m 'not integrations and not compilers and not nightly' $(SIDE_BY_SIDE) || status=1; \
	$(call step,Python tests that compile,4) $(BIN)/python -m pytest -m 'not integrations and compilers' $(SIDE_BY_SIDE) || status=1; \
	exit $$status

test-integrations: $(INSTALLED)  ## install torch, trace readers and other packages, and run the tests that need them
	$(BIN)/python tests/tools/requirements.py integrations \
	  | $(call step,install packages of the integrations) xargs -d '\n' $(BIN)/pip install -q
	for version in 11 13_0; do test -d build/cuda$$version || $(BIN)/pip install -q --no-deps \
	  --target build/cuda$$version -r tests/requirements_cuda$$version.txt || exit 1; done
	@test -d $(READERS)/node_modules/typescript || ! command -v npm >/dev/null \
	  || npm install --silent --no-audit --no-fund --prefix $(READERS) speedscope@1 typescript@5
	$(call step,integrations) $(BIN)/python -m pytest -m 'integrations and not nightly' $(SIDE_BY_SIDE)

test-nightly: $(INSTALLED)  ## run the longer tables of cases (test-integrations installs what they need)
	$(call step,longer tables of cases) $(BIN)/python -m pytest -m nightly $(SIDE_BY_SIDE)

test-all: test test-integrations test-nightly test-interpreters check test-aarch64  ## run all tests of this machine, also those that .ci/run leaves out

test-interpreters: $(TOOLS)  ## run tests on the oldest and newest other CPython of this machine (VERSIONS="3.12 --all": others, all tests)
	JOBS=$(JOBS) $(call step,other interpreters) $(BIN)/python tests/tools/python_versions.py $(VERSIONS)

test-aarch64: $(TOOLS)  ## run C++ tests for aarch64 under qemu-user (AARCH64=all: every one)
	$(call step,aarch64) $(BIN)/python tests/tools/aarch64.py $(AARCH64)

test-macos: $(TOOLS)  ## cross-compile the headers and _core for macOS (x86-64, arm64) and link it; installs ziglang, takes many minutes
	$(BIN)/pip install -q "ziglang>=0.13"
	$(BIN)/python tests/tools/darwin_build.py --jobs $(JOBS)

metal-check:  ## on a Mac: build and run the Metal profiler, write build/metal_check.json
	$(PYTHON) tests/metal/metal_check.py

test: TOTAL := 4
test: test-cpp test-python  ## build and run all tests

check: $(INSTALLED)  ## run linters, type checks, layer rules, sanitizers
	$(call step,linters) $(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory sanitize

lint: $(INSTALLED)  ## run the checks without the sanitizers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/tools/check_layers.py
	git ls-files '*.hpp' '*.cpp' '*.mm' | xargs $(BIN)/clang-format --dry-run --Werror

format: $(TOOLS)  ## format all C++ and Python sources in place
	$(BIN)/ruff format -q .
	git ls-files '*.hpp' '*.cpp' '*.mm' | xargs $(BIN)/clang-format -i

# clang++ compiles the checks of ASan and UBSan in half the time of g++ (docs/testing.md). A build folder keeps its compiler.
sanitize: $(TOOLS)  ## run the C++ unit and stress tests under ASan+UBSan, then TSan
	if echo 'int main() {}' | clang++ -fsanitize=address,undefined -x c++ - -o /dev/null 2>/dev/null; then CXX=clang++ cmake --preset asan-ubsan; fi
	for preset in asan-ubsan tsan; do \
	  cmake --preset $$preset && $(call step,compile $$preset) cmake --build --preset $$preset -j $(JOBS) \
	    && $(call step,C++ tests $$preset) ctest --preset $$preset -j $(JOBS) || exit 1; \
	done

sanitize-python: $(TOOLS)  ## run the tests of traced calls and tasks under ASan+UBSan (TESTS=path: others, TESTS="--python 3.13"); builds for 15 CPU minutes
	JOBS=$(JOBS) $(BIN)/python tests/tools/sanitized_python.py $(TESTS)

# Does not use .venv, because offline machines have fastprof and PyTorch in a Python of their own. Reports what is missing.
gpu-check:  ## check fastprof on an NVIDIA GPU, offline, in ten minutes; writes benchmarks/results/gpu-<device>.json (PYTHON=...)
	$(PYTHON) tests/gpu/session.py

sanitize-cuda: $(INSTALLED)  ## run the CUDA backends on their doubles under ASan+UBSan, then TSan; needs the headers of test-integrations, builds for minutes
	$(BIN)/python tests/tools/cuda_stress.py --sanitize address,undefined
	$(BIN)/python tests/tools/cuda_stress.py --sanitize thread

bench: $(INSTALLED)  ## run the benchmarks (minutes; needs a quiet machine)
	$(BIN)/python benchmarks/run.py

stubs: $(INSTALLED)  ## regenerate python/fastprof/_core.pyi
	$(BIN)/python tests/tools/stubs.py --write

wheels:  ## build manylinux_2_28 wheels into dist/ and test each on Debian 11 (needs root and x86-64; WHEELS="3.12 3.13": only these)
	$(PYTHON) packaging/wheels.py $(if $(WHEELS),--python $(WHEELS)) $(if $(TORCH),--torch $(TORCH))

test-wheels:  ## install each of dist/*.whl here and run the unit tests with it (TORCH=torch==2.13.0: also profile with that torch)
	$(PYTHON) packaging/try_here.py --unit-tests $(if $(TORCH),--torch $(TORCH)) dist/*.whl

release:  ## set the version, date the changelog, commit and tag: make release VERSION=1.2.3
	$(PYTHON) packaging/release.py "$(VERSION)"

docs: $(INSTALLED)  ## build the documentation site into build/docs/html; fails on dead links
	$(BIN)/python tests/tools/requirements.py docs | xargs -d '\n' $(BIN)/pip install -q
	$(BIN)/python docs/site/build_site.py

clean:  ## remove build/ and .venv
	rm -rf build .venv
