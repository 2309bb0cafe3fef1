# SPDX-License-Identifier: Apache-2.0
"""A torch that fastprof records; where none is installed, test modules that import this are skipped.

Import it before anything that needs torch: the skip takes place at the import.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from fastprof.adapters.torch.versions import cxx11_abi

__all__ = [
    "CPU", "CXX11_ABI", "OWN_MEMBERS", "RELEASE", "VERSION", "known_fields", "known_options", "needs_inputs",
    "one_thread", "torch", "with_units_of_bytes",
]  # fmt: skip

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

VERSION = str(torch.__version__)
CXX11_ABI = cxx11_abi(torch)
# The first two numbers: what an older torch does otherwise is told by comparing with a pair.
RELEASE = tuple(int(number) for number in VERSION.split(".")[:2])
if RELEASE < (2, 6):
    pytest.skip(
        f"torch {VERSION} is older than what fastprof was run with", allow_module_level=True
    )

# What torch.profiler is asked to record.
CPU = [torch.profiler.ProfilerActivity.CPU]


# What each profiler says of its own events in the args of a trace; before 2.8 torch says "finished" of ops, too.
OWN_MEMBERS = {"External id", "Record function id", "Ev Idx"}
if RELEASE < (2, 8):
    OWN_MEMBERS.add("finished")

# For tests that need what ops are called with.
needs_inputs = pytest.mark.skipif(
    not CXX11_ABI,
    reason="this torch has libstdc++'s older string ABI: fastprof reads no inputs and no modules",
)


def known_options(names: Iterable[str]) -> set[str]:
    """Those that _ExperimentalConfig of this torch takes, too: older ones have fewer."""
    signature = str(torch._C._profiler._ExperimentalConfig.__init__.__doc__)
    return {name for name in names if f" {name}:" in signature}


def known_fields(names: Iterable[str]) -> tuple[str, ...]:
    """Those that events of this torch.profiler have, too: older ones have fewer."""
    event: Any = torch.autograd.profiler_util.FunctionEvent(0, "", 0, 0, 0)
    return tuple(name for name in names if hasattr(event, name))


# torch 2.6 writes "Kb" and "b" of bytes; fastprof writes "KB" and "B", as newer ones do.
OTHER_BYTES = torch.autograd.profiler_util._format_memory(1) == "1 b"


def with_units_of_bytes(text: str) -> str:
    """A table of torch's with bytes in the units that newer ones write."""
    if not OTHER_BYTES:
        return text
    return re.sub(r"(?<=\d )[KMG]?b(?=  )", lambda unit: unit[0].upper(), text)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """For every test of a module that imports it: no op hands parts of its work to threads of torch."""
    torch.set_num_threads(1)
