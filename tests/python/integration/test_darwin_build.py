# SPDX-License-Identifier: Apache-2.0
"""fastprof is cross-compiled for macOS: its headers, a part of ``_core``, and a program, whose Mach-O is then read.

The compiler is the package ziglang (tests/tools/darwin_build.py). `make test-macos` compiles and links all of it; here
is what takes a minute. Nothing is run; the forms of fastprof/platform for macOS run on doubles in tests/cpp/darwin.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

import darwin_build
import pytest
from mach_o import commands, sections, symbols

pytestmark = pytest.mark.integrations

ROOT = Path(__file__).resolve().parents[3]
PROCESSORS = ["aarch64", pytest.param("x86_64", marks=pytest.mark.nightly)]
MAGIC = b"fastprof\x01state\r\n"
PROGRAM = """
#include "fastprof/fastprof.hpp"
void annotated();
int main() {
  fastprof::Session session;
  session.start();
  annotated();
  session.stop();
  return session.capture().size() == 1 ? 0 : 1;
}
"""
ANNOTATED = """
#include "fastprof/annotate.hpp"
void annotated() { FASTPROF_RANGE("annotated"); }
"""
# A few sources, each of which was not for macOS once.
SOURCES = (
    "csrc/adapters/torch/layout/loaded_library.cpp",
    "csrc/bindings/native_frames.cpp",
    "csrc/backends/metal/find_platform.cpp",
)


@pytest.fixture(autouse=True)
def compiler() -> None:
    if not darwin_build.has_ziglang():
        pytest.skip("ziglang is not installed: pip install ziglang")


@pytest.mark.parametrize("processor", PROCESSORS)
def test_all_public_headers_compile_strictly(processor: str, tmp_path: Path) -> None:
    unit = tmp_path / "all.cpp"
    unit.write_text("".join(f'#include "{name.as_posix()}"\n' for name in darwin_build.headers()))
    said = darwin_build.compile_source(
        processor, unit, tmp_path / "all.o", darwin_build.STRICT, "-O0"
    )
    assert said == ""


@pytest.mark.nightly  # linking compiles libc++ for each processor, once on a machine
@pytest.mark.parametrize("processor", ["aarch64", "x86_64"])
def test_a_program_links_and_shows_one_state(processor: str, tmp_path: Path) -> None:
    """Everything that the recorder calls is exported by libSystem; two files of a program share one State."""
    objects = []
    for name, text in {"program": PROGRAM, "annotated": ANNOTATED}.items():
        source, made = tmp_path / f"{name}.cpp", tmp_path / f"{name}.o"
        source.write_text(text)
        assert darwin_build.compile_source(processor, source, made, ("-Wall", "-Werror")) == ""
        objects.append(made)
    program = tmp_path / "program"
    linked = darwin_build.zig(processor, *objects, "-o", program)
    assert linked.returncode == 0, linked.stderr
    image = program.read_bytes()
    assert image[:8] == darwin_build.MACH_O[processor]
    (shown,) = [s for s in sections(image) if (s.segment, s.name) == ("__DATA", "__fastprof")]
    assert shown.data.count(MAGIC) >= 1  # some linkers leave what nothing refers to
    states = [value for name, value in symbols(image) if name == "fastprof_v1_state"]
    assert len(set(states)) == 1
    at = shown.data.index(MAGIC)
    _major, _minor, size = struct.unpack_from("<HHI", shown.data, at + 16)
    assert at + size <= len(shown.data)
    assert any(number == 0x1B for number, _ in commands(image))  # LC_UUID: the build id of a module
    assert any(s.name in ("__mod_init_func", "__init_offsets") for s in sections(image))


def test_sources_of_core_compile(tmp_path: Path) -> None:
    flags = [*darwin_build.python_flags(tmp_path), *darwin_build.WARNINGS]
    for source in SOURCES:
        said = darwin_build.compile_source(
            "aarch64", ROOT / source, tmp_path / "object.o", flags, "-O0"
        )
        assert said == "", source


def test_cmake_is_configured_for_macos(tmp_path: Path) -> None:
    """Its branches for APPLE: Objective-C++ with reference counting, frameworks, no library for NVTX and ITT."""
    build, refused = darwin_build.configure_core("aarch64", tmp_path)
    assert refused == ""
    rules = (build / "build.ninja").read_text()
    assert "libfastprof_injection" not in rules
    (platform,) = re.findall(r"build [^\n]*metal_platform\.mm\.o:.*?\n\n", rules, re.DOTALL)
    assert "OBJCXX_COMPILER" in platform and "-fobjc-arc" in platform
    assert "-mmacosx-version-min=12.0" in platform
    compiled = rules + "".join(part.read_text() for part in build.rglob("unity_*.cxx"))
    assert "torch_stream.cpp" in compiled
    (link,) = re.findall(r"build csrc/[^\n]*_core[^\n ]*\.so:.*?\n\n", rules, re.DOTALL)
    assert "-framework Foundation" in link and "-framework Metal" in link
    names = [path.as_posix() for path in darwin_build.headers()]
    assert len(names) > 150 and not any("platform/linux" in name for name in names)
