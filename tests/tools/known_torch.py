# SPDX-License-Identifier: Apache-2.0
"""The installed torch, if fastprof supports it; otherwise the test modules that import this file are skipped.

Import it before anything that needs torch, because the import raises the skip.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from fastprof.adapters.torch.versions import cxx11_abi

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

VERSION = str(torch.__version__)
CXX11_ABI = cxx11_abi(torch)
# (major, minor), which tests compare with a pair where an older torch behaves differently.
RELEASE = tuple(int(number) for number in VERSION.split(".")[:2])
if RELEASE < (2, 6):
    pytest.skip(
        f"torch {VERSION} is older than 2.6, the oldest that fastprof is tested with",
        allow_module_level=True,
    )

# The activities that tests pass to torch.profiler.
CPU = [torch.profiler.ProfilerActivity.CPU]


# Args of trace events whose values differ between profilers; torch before 2.8 also writes "finished" for ops.
OWN_MEMBERS = {"External id", "Record function id", "Ev Idx"}
if RELEASE < (2, 8):
    OWN_MEMBERS.add("finished")

# Mark of tests that need the inputs of ops.
needs_inputs = pytest.mark.skipif(
    not CXX11_ABI,
    reason="this torch has libstdc++'s older string ABI: fastprof reads no inputs and no modules",
)


def known_options(names: Iterable[str]) -> set[str]:
    """Return those of `names` that _ExperimentalConfig of this torch accepts; older versions accept fewer."""
    signature = str(torch._C._profiler._ExperimentalConfig.__init__.__doc__)
    return {name for name in names if f" {name}:" in signature}


def known_fields(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of `names` that events of this torch.profiler have; older versions have fewer."""
    event: Any = torch.autograd.profiler_util.FunctionEvent(0, "", 0, 0, 0)
    return tuple(name for name in names if hasattr(event, name))


# torch 2.6 writes "Kb" and "b" of bytes; fastprof writes "KB" and "B", as newer ones do.
OTHER_BYTES = torch.autograd.profiler_util._format_memory(1) == "1 b"


def with_units_of_bytes(text: str) -> str:
    """Return a table printed by torch with the units of bytes that newer versions print."""
    if not OTHER_BYTES:
        return text
    return re.sub(r"(?<=\d )[KMG]?b(?=  )", lambda unit: unit[0].upper(), text)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Fixture: in each test of a module that imports it, ops do not use torch's thread pool."""
    torch.set_num_threads(1)
