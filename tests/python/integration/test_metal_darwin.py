# SPDX-License-Identifier: Apache-2.0
"""The Metal profiler is compiled for macOS: Mach-O of both processors, with and without automatic reference counting.

The compiler is the package ziglang, whose clang has the headers of Darwin's C library and of Objective-C; Foundation
and Metal are declared by us (tests/doubles/metal). Nothing is linked or run.
"""

from __future__ import annotations

from pathlib import Path

import darwin_build
import pytest

pytestmark = pytest.mark.integrations

SOURCES = (
    "csrc/backends/metal/metal_platform.mm",
    "csrc/backends/metal/commit_observation.mm",
    "csrc/backends/metal/torch_stream.cpp",
    "examples/metal_compute.mm",  # which includes the whole of fastprof/metal.hpp
)


# Of a 64-bit Mach-O file: magic number, then the processor.
@pytest.mark.parametrize(
    ("processor", "counting"),
    [("aarch64", "-fobjc-arc"), pytest.param("x86_64", "-fno-objc-arc", marks=pytest.mark.nightly)],
)
def test_the_metal_profiler_compiles_for_macos(
    processor: str, counting: str, tmp_path: Path
) -> None:
    if not darwin_build.has_ziglang():
        pytest.skip("ziglang is not installed: pip install ziglang")
    for name in SOURCES:
        flags = (*darwin_build.WARNINGS, *((counting,) if name.endswith(".mm") else ()))
        source, made = darwin_build.ROOT / name, tmp_path / "object.o"
        said = darwin_build.compile_source(processor, source, made, flags, "-O0")
        assert said == "", name
