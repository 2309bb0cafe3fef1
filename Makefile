# Thin: each target is a few lines over CMake, pip and pytest. `make help` describes them.
# Everything lies in .venv and build/. Needs Python >= 3.10 and g++ or clang; CMake and Ninja come from pip if missing.
PYTHON ?= python3
JOBS ?= 2
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
export PATH := $(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
TOOLS := $(VENV)/.tools
INSTALLED := $(VENV)/.installed
READERS := $(CURDIR)/build/readers
NATIVE := $(shell find CMakeLists.txt pyproject.toml cmake csrc -type f 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help demo install build test test-cpp test-python check lint format sanitize sanitize-python sanitize-cuda bench stubs docs clean test-integrations test-interpreters test-aarch64 gpu-check metal-check test-macos mutants wheels test-wheels release

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The environment with all build and test tools; made once, again when pyproject.toml changes.
$(TOOLS): pyproject.toml
	@echo "Making an environment in .venv and installing build and test tools into it: about a minute, once."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "Python >= 3.10 is needed; choose one with: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  $(PYTHON) -m pip install --user virtualenv && $(PYTHON) -m virtualenv $(VENV); }
	$(BIN)/python -m pip install -q --upgrade "pip>=23.1"
	$(BIN)/python tests/tools/requirements.py build test demo dev | xargs -d '\n' $(BIN)/pip install -q
	@command -v cmake >/dev/null || $(BIN)/pip install -q "cmake>=3.21"
	@command -v ninja >/dev/null || $(BIN)/pip install -q ninja
	@touch $@

# fastprof itself, editable: Python files are used from where they lie, _core is built again when its sources change.
$(INSTALLED): $(TOOLS) $(NATIVE)
	@echo "Building fastprof: about a minute, then only after changes of its C++ sources."
	$(BIN)/pip install -q --no-build-isolation --no-deps -C build-dir=build/editable -e .
	@touch $@

install: $(INSTALLED)  ## install fastprof, editable, into .venv

demo: $(INSTALLED)  ## build, then profile real work and print the result
	@mkdir -p build/demo
	@echo "Building the C++ demo: some seconds."
	$(CXX) -std=c++17 -O2 $$($(BIN)/python -m fastprof --includes) examples/demo.cpp -o build/demo/demo -pthread -ldl
	build/demo/demo build/demo
	$(BIN)/python examples/digits.py --out build/demo

build: $(TOOLS)  ## build the C++ tests (preset release)
	cmake --preset release -DPython_EXECUTABLE=$(BIN)/python
	cmake --build --preset release -j $(JOBS)

test-cpp: build  ## run the C++ unit and stress tests
	ctest --preset release -j $(JOBS)

test-python: $(INSTALLED)  ## run the Python tests, and those that drive compilers
	status=0; \
	$(BIN)/python -m pytest -m 'not integrations and not compilers' || status=1; \
	$(BIN)/python -m pytest -m 'not integrations and compilers' -n $(JOBS) --dist loadfile || status=1; \
	exit $$status

test-integrations: $(INSTALLED)  ## install torch, trace readers and the like, and run the tests that need them
	$(BIN)/python tests/tools/requirements.py integrations | xargs -d '\n' $(BIN)/pip install -q
	test -d build/cuda11 || $(BIN)/pip install -q --no-deps --target build/cuda11 -r tests/requirements_cuda11.txt
	@test -d $(READERS)/node_modules/typescript || ! command -v npm >/dev/null \
	  || npm install --silent --no-audit --no-fund --prefix $(READERS) speedscope@1 typescript@5
	$(BIN)/python -m pytest -m integrations

test-interpreters: $(TOOLS)  ## run tests on the oldest and newest other CPython of this machine (VERSIONS="3.12 --all": others, all tests)
	JOBS=$(JOBS) $(BIN)/python tests/tools/python_versions.py $(VERSIONS)

test-aarch64: $(TOOLS)  ## run C++ tests for aarch64 under qemu-user (AARCH64=all: every one)
	$(BIN)/python tests/tools/aarch64.py $(AARCH64)

test-macos: $(TOOLS)  ## cross-compile headers and _core for macOS, both processors, and link it; installs ziglang, many minutes
	$(BIN)/pip install -q "ziglang>=0.13"
	$(BIN)/python tests/tools/darwin_build.py --jobs $(JOBS)

metal-check:  ## on a Mac: build and run the Metal profiler, write build/metal_check.json
	$(PYTHON) tests/metal/metal_check.py

test: test-cpp test-python  ## build and run all tests

check: lint sanitize  ## linters, types, layer rule, sanitizers

lint: $(INSTALLED)  ## the checks without the sanitizers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/tools/check_layers.py
	git ls-files '*.hpp' '*.cpp' '*.mm' | xargs $(BIN)/clang-format --dry-run --Werror

format: $(TOOLS)  ## format all C++ and Python sources in place
	$(BIN)/ruff format -q .
	git ls-files '*.hpp' '*.cpp' '*.mm' | xargs $(BIN)/clang-format -i

sanitize: $(TOOLS)  ## ASan+UBSan, then TSan, over unit and stress tests
	for preset in asan-ubsan tsan; do \
	  cmake --preset $$preset && cmake --build --preset $$preset -j $(JOBS) && ctest --preset $$preset || exit 1; \
	done

sanitize-python: $(TOOLS)  ## ASan+UBSan over the tests of traced calls and tasks (TESTS=path: others, TESTS="--python 3.13"); 15 minutes of a CPU to build
	JOBS=$(JOBS) $(BIN)/python tests/tools/sanitized_python.py $(TESTS)

# Not through .venv: offline machines have fastprof and PyTorch in a Python of their own. It says so where they are missing.
gpu-check:  ## check fastprof on an NVIDIA GPU, offline, in ten minutes; writes benchmarks/results/gpu-<device>.json (PYTHON=...)
	$(PYTHON) tests/gpu/gpu_check.py

sanitize-cuda: $(INSTALLED)  ## ASan+UBSan, then TSan, over the CUDA backends on their doubles; needs the headers of test-integrations, minutes to build
	$(BIN)/python tests/tools/cuda_stress.py --sanitize address,undefined
	$(BIN)/python tests/tools/cuda_stress.py --sanitize thread

mutants: $(INSTALLED)  ## put faults into the sources and see if tests notice (MUTANTS="--count 60 --seed 3", MUTANTS="--cpp --headers-only"; half an hour for 300)
	$(BIN)/python tests/tools/requirements.py mutants | xargs -d '\n' $(BIN)/pip install -q
	$(BIN)/python tests/tools/mutants.py $(MUTANTS)

bench: $(INSTALLED)  ## run the benchmarks (minutes; wants a quiet machine)
	$(BIN)/python benchmarks/run.py

stubs: $(INSTALLED)  ## generate python/fastprof/_core.pyi again
	$(BIN)/python tests/tools/stubs.py --write

wheels:  ## build manylinux_2_28 wheels into dist/ and try each on Debian 11 (root, x86-64; WHEELS="3.12 3.13" for some)
	$(PYTHON) packaging/wheels.py $(if $(WHEELS),--python $(WHEELS)) $(if $(TORCH),--torch $(TORCH))

test-wheels:  ## install each of dist/*.whl here, run the unit tests against it (TORCH=torch==2.13.0: profile that, too)
	$(PYTHON) packaging/try_here.py --unit-tests $(if $(TORCH),--torch $(TORCH)) dist/*.whl

release:  ## set the version, date the changelog, commit and tag: make release VERSION=1.2.3
	$(PYTHON) packaging/release.py "$(VERSION)"

docs: $(INSTALLED)  ## build the documentation site into build/docs/html; a dead link fails
	$(BIN)/python tests/tools/requirements.py docs | xargs -d '\n' $(BIN)/pip install -q
	$(BIN)/python docs/site/build_site.py

clean:  ## remove build/ and .venv
	rm -rf build .venv
