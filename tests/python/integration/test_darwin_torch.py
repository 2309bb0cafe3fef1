# SPDX-License-Identifier: Apache-2.0
"""torch's ops on macOS: the names of its functions and the layout of its objects there, without a Mac.

A compiler for macOS (ziglang) says how names are mangled, and what torch's headers lay out with libc++. Programs built
with libc++, in both forms of its strings, run here. No libtorch of macOS is run.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import subprocess
from pathlib import Path

import darwin_build
import pytest
from mach_o import symbols
from processes import python

pytestmark = pytest.mark.integrations

ROOT = Path(__file__).resolve().parents[3]
LAYOUT = ROOT / "csrc" / "adapters" / "torch" / "layout"
INPUTS = ROOT / "csrc" / "adapters" / "torch" / "inputs"
# What fastprof calls, as torch's headers declare it: of 2.9 and newer, and the two older forms of before().
DECLARATIONS = """
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>
namespace c10 {
struct FunctionSchema;
template <class Char> struct basic_string_view { const Char* text; size_t length; };
struct Device { int8_t type, index; };
struct DebugInfoBase;
struct DebugInfoKind { const void* name; };
struct ThreadLocalDebugInfo { static void _push(DebugInfoKind kind, std::shared_ptr<DebugInfoBase> info); };
void reportMemoryUsageToProfiler(void* ptr, int64_t size, size_t allocated, size_t reserved, Device device);
void reportOutOfMemoryToProfiler(int64_t size, size_t allocated, size_t reserved, Device device);
}
namespace at {
void removeCallback(uint64_t handle);
struct RecordFunction {
  void before(std::variant<std::string_view, std::reference_wrapper<const c10::FunctionSchema>> name, int64_t number);
  void before(std::variant<c10::basic_string_view<char>, std::reference_wrapper<const c10::FunctionSchema>> name,
              int64_t number);
  void before(const char* name, int64_t number);
};
}
namespace torch::profiler::impl {
struct SaveNcclMetaConfig;
std::unordered_map<std::string, std::string> saveNcclMeta(const at::RecordFunction& fn,
                                                          const SaveNcclMetaConfig& config);
}
namespace torch::jit { std::vector<std::string> currentModuleHierarchy(); }
void call(at::RecordFunction& function, const c10::FunctionSchema& schema,
          const torch::profiler::impl::SaveNcclMetaConfig& config) {
  using Operator = std::reference_wrapper<const c10::FunctionSchema>;
  at::removeCallback(1);
  function.before(std::variant<std::string_view, Operator>(std::cref(schema)), 1);
  function.before(std::variant<c10::basic_string_view<char>, Operator>(std::cref(schema)), 1);
  function.before("", int64_t{1});
  c10::ThreadLocalDebugInfo::_push({}, nullptr);
  c10::reportMemoryUsageToProfiler(nullptr, 1, 1, 1, {});
  c10::reportOutOfMemoryToProfiler(1, 1, 1, {});
  torch::profiler::impl::saveNcclMeta(function, config);
  torch::jit::currentModuleHierarchy();
}
"""


@pytest.fixture(autouse=True)
def compiler() -> None:
    if not darwin_build.has_ziglang():
        pytest.skip("ziglang is not installed: pip install ziglang")


def names_in_header(table: str) -> set[str]:
    """Return the names of a table of symbol_names.hpp."""
    text = (LAYOUT / "symbol_names.hpp").read_text()
    body = re.search(table + r"\{(.*?)\};", text, re.DOTALL)
    assert body is not None
    return {
        "".join(re.findall(r'"([^"]*)"', entry))
        for entry in re.findall(r'(?:"[^"]*"\s*)+,', body[1])
    }


def test_names_are_mangled_as_on_macos(tmp_path: Path) -> None:
    source, made = tmp_path / "names.cpp", tmp_path / "names.o"
    source.write_text(DECLARATIONS)
    assert darwin_build.compile_source("aarch64", source, made, (), "-O1") == ""
    # Mach-O puts an underscore before each name.
    found = {name[1:] for name, _ in symbols(made.read_bytes())}
    expected = names_in_header("kMacSymbolNames")
    assert len(expected) == 9
    assert expected <= found
    assert expected == {name for name in found if re.match(r"_ZN(2at|3c10|5torch)", name)}


def test_headers_of_torch_give_the_layout_of_macos(tmp_path: Path) -> None:
    """fastprof.adapters.torch.layout is compiled for macOS against the headers of the torch that is installed."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        pytest.skip("torch is not installed")
    import torch

    from fastprof.adapters.torch.layout import SECTIONS, numbers_in, source_of

    include = Path(found.origin).parent / "include"
    source, made = tmp_path / "layout.cpp", tmp_path / "layout.o"
    source.write_text(source_of(SECTIONS))
    done = darwin_build.zig(
        "aarch64", "-std=c++20", "-w", "-O1", "-DNDEBUG", "-fno-access-control", "-fno-strict-aliasing", "-fPIC",
        f"-I{include}", f"-I{include / 'torch' / 'csrc' / 'api' / 'include'}", "-c", source, "-o", made,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    numbers = {name: numbers_in(made.read_bytes(), name) for name in SECTIONS}
    assert None not in numbers.values()
    if not str(torch.__version__).startswith("2.13."):
        return
    assert numbers["memory"] == [8, 0]
    text = (LAYOUT / "record_function_layout.cpp").read_text()
    row = re.search(r"\{2, 13\}, \{2, 13\}, StringAbi::libcxx_alternate, \{([^}]*)\}", text)
    assert row is not None and numbers["ops"] == [int(n) for n in row[1].split(",")]
    text = (INPUTS / "input_layout.hpp").read_text()
    row = re.search(r"kMacInputLayout_2_13\{([^}]*)\}", text)
    assert row is not None and numbers["inputs"] == [
        int(n, 0) for n in row[1].split(",") if n.strip()
    ]


@pytest.mark.nightly  # a machine without a cache compiles musl and libc++ first
@pytest.mark.parametrize("form", ["", "-D_LIBCPP_ABI_ALTERNATE_STRING_LAYOUT"])
def test_objects_of_libcxx_are_read(form: str, tmp_path: Path) -> None:
    """The second form is that of Apple's arm64; it is a matter of the headers."""
    program = tmp_path / "standard_library"
    python(
        "-m", "ziglang", "c++", "-target", f"{platform.machine()}-linux-musl", "-std=c++17", "-O1",
        "-static", *filter(None, [form]), f"-I{ROOT / 'csrc' / 'include'}", f"-I{ROOT / 'csrc'}",
        f"-I{ROOT / 'tests' / 'cpp'}", ROOT / "tests" / "cpp" / "unit" / "test_standard_library.cpp", "-o",
        program, check=True,
    )  # fmt: skip
    ran = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "5 passed, 0 failed" in ran.stdout
