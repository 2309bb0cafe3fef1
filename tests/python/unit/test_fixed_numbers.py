# SPDX-License-Identifier: Apache-2.0
"""Numbers that others know: of PyTorch's enums and of the C header for device plug-ins."""

from __future__ import annotations

import enum
import re
from pathlib import Path

import pytest

import fastprof
from fastprof import _paths, devices
from fastprof.analysis.memory_categories.kinds import Action, Category
from fastprof.importers.chrome_args import DEVICE_CATEGORIES, NUMBERS
from fastprof.model.columns import COLUMNS

# Of torch.profiler, of torch._C._profiler, and of torch.profiler._memory_profiler.
OF_PYTORCH = {
    fastprof.ProfilerAction: ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"],
    fastprof.ProfilerActivity: ["CPU", "XPU", "CUDA", "HPU", "MTIA", "PrivateUse1"],
    Category: [
        "INPUT", "TEMPORARY", "ACTIVATION", "GRADIENT", "AUTOGRAD_DETAIL", "PARAMETER", "OPTIMIZER_STATE",
    ],
    Action: ["PREEXISTING", "CREATE", "INCREMENT_VERSION", "DESTROY"],
}  # fmt: skip


@pytest.mark.parametrize("kind", OF_PYTORCH, ids=lambda kind: kind.__qualname__)
def test_enums_have_pytorchs_numbers(kind: type[enum.Enum]) -> None:
    first = 0 if kind.__name__.startswith("Profiler") else 1
    numbers = {member.name: member.value for member in kind}
    assert (numbers.pop("DEVICE_STOPPED", 4), numbers.pop("MPS", 6)) == (4, 6)  # ours
    assert numbers == {name: number for number, name in enumerate(OF_PYTORCH[kind], first)}


@pytest.mark.parametrize("kind", [devices.ActivityType, devices.ArgumentType])
def test_numbers_of_devices_are_those_of_the_header(kind: type[enum.IntEnum]) -> None:
    header = Path(_paths.include_dir(), "fastprof", "device_plugin.h").read_text()
    prefix = f"FASTPROF_{kind.__name__.removesuffix('Type').upper()}_"
    listed = re.findall(rf"\b{prefix}(\w+) = (\d+)", header)
    assert {member.name: member.value for member in kind} == {n: int(v) for n, v in listed}


def test_categories_of_device_work_are_kinetos() -> None:
    """Kineto's activity types whose events are on a device; of CUDA unless they name another."""
    cuda = [
        "kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync", "cuda_event", "gpu_memory",
        "unified_memory", "collective_comm",
    ]  # fmt: skip
    others = {"mtia_ccp_events": "MTIA", "hpu_op": "HPU"}
    expected = dict.fromkeys(cuda, "CUDA") | others
    assert {name: kind.name for name, kind in DEVICE_CATEGORIES.items()} == expected


def test_numbers_of_args_have_the_defaults_of_their_columns() -> None:
    """So that a row without an arg is one that was recorded without."""
    assert {column: default for _, column, default in NUMBERS} == {
        column: COLUMNS[column].default for _, column, _ in NUMBERS
    }
