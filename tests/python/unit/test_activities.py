# SPDX-License-Identifier: Apache-2.0
"""Activities: their names, their filters, and which of them this machine cannot record."""

from __future__ import annotations

import pytest

from fastprof import ProfilerActivity, errors, supported_activities
from fastprof.record import cuda
from fastprof.record.activities import as_activity, category_mask, cuda_types
from fastprof.record.availability import missing_reason


def test_cpu_is_supported_and_has_no_reason_to_miss() -> None:
    assert ProfilerActivity.CPU in supported_activities()
    assert missing_reason(ProfilerActivity.CPU) is None


def test_what_is_missing_has_a_reason_that_names_it() -> None:
    for activity in set(ProfilerActivity) - supported_activities():
        assert activity.name in str(missing_reason(activity))


@pytest.mark.parametrize("spelling", [ProfilerActivity.CUDA, "CUDA", "cuda"])
def test_spellings(spelling: object) -> None:
    assert as_activity(spelling) is ProfilerActivity.CUDA


@pytest.mark.integrations
def test_pytorchs_own_values() -> None:
    theirs = pytest.importorskip("torch.profiler").ProfilerActivity
    assert as_activity(theirs.CPU) is ProfilerActivity.CPU
    assert as_activity(theirs.CUDA) is ProfilerActivity.CUDA


def test_unknown_activity_lists_the_known() -> None:
    with pytest.raises(errors.ValueError, match="CPU, XPU"):
        as_activity("GPU9")


def test_category_mask_of_everything_and_of_nonsense() -> None:
    assert category_mask(None) == 2**24 - 1
    with pytest.raises(RuntimeError, match="unknown activity type 'nonsense' of CPU"):
        category_mask(("nonsense",))


def test_types_of_cuda() -> None:
    every = (
        "cuda_driver", "cuda_runtime", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "kernel",
        "overhead",
    )  # fmt: skip
    assert cuda_types(None) == every
    assert cuda_types(None, sync=True) == (*every[:2], "cuda_sync", *every[2:])
    assert set(cuda_types(None, memory=True)) - set(every) == {"gpu_memory", "unified_memory"}
    assert cuda_types(("gpu_memory",)) == ("gpu_memory",)
    assert cuda_types(("CONCURRENT_KERNEL", "kernel")) == ("kernel",)
    assert cuda_types(("KERNEL",), sync=True) == ("cuda_sync", "kernel")
    assert cuda_types(()) == ()
    with pytest.raises(errors.UnavailableError, match=r"unknown activity type 'gpu'.*KERNEL"):
        cuda_types(("gpu",))


def test_without_a_driver_cuda_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTPROF_CUPTI_LIBRARY", raising=False)
    monkeypatch.setattr(cuda.os.path, "exists", lambda path: False)
    assert "driver is not installed" in str(missing_reason(ProfilerActivity.CUDA))
    assert supported_activities() == {ProfilerActivity.CPU}


def test_an_empty_library_switches_cuda_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPROF_CUPTI_LIBRARY", "")
    assert "switched off" in str(missing_reason(ProfilerActivity.CUDA))
