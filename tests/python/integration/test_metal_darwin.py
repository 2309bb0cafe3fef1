# SPDX-License-Identifier: Apache-2.0
"""The Metal profiler is compiled for macOS: Mach-O of both processors, with and without automatic reference counting.

The compiler is the package ziglang, whose clang has the headers of Darwin's C library and of Objective-C; Foundation
and Metal are declared by us (tests/doubles/metal). Nothing is linked or run.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from processes import python

pytestmark = pytest.mark.integrations

ROOT = Path(__file__).resolve().parents[3]
DOUBLES = ROOT / "tests" / "doubles" / "metal"
SOURCES = (
    "csrc/backends/metal/metal_platform.mm",
    "csrc/backends/metal/commit_observation.mm",
    "csrc/backends/metal/torch_stream.cpp",
    "examples/metal_compute.mm",  # which includes the whole of fastprof/metal.hpp
)
# Of a 64-bit Mach-O file: magic number, then the processor.
MACH_O = {
    "aarch64": b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01",
    "x86_64": b"\xcf\xfa\xed\xfe\x07\x00\x00\x01",
}


def compile_for(processor: str, source: Path, folder: Path, *flags: str) -> tuple[bytes, str]:
    """Return the first bytes of the object file, empty if the compiler refused, and what it said."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed: pip install ziglang")
    made = folder / "object.o"
    made.unlink(missing_ok=True)
    objective = ("-x", "objective-c++", "-fblocks") if source.suffix == ".mm" else ()
    done = python(
        "-m", "ziglang", "c++", "-target", f"{processor}-macos.12.0", *objective, *flags, "-std=c++17",
        "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'csrc' / 'include'}", f"-I{ROOT / 'csrc'}",
        f"-I{DOUBLES / 'darwin'}", "-idirafter", DOUBLES / "apple", "-c", source, "-o", made,
    )  # fmt: skip
    return (made.read_bytes()[:8] if done.returncode == 0 else b""), done.stderr


@pytest.mark.parametrize(
    ("processor", "counting"), [("aarch64", "-fobjc-arc"), ("x86_64", "-fno-objc-arc")]
)
def test_the_metal_profiler_compiles_for_macos(
    processor: str, counting: str, tmp_path: Path
) -> None:
    for source in SOURCES:
        flags = (counting,) if source.endswith(".mm") else ()
        head, errors = compile_for(processor, ROOT / source, tmp_path, *flags)
        assert head == MACH_O[processor], f"{source}\n{errors}"
