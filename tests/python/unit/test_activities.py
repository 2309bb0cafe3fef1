# SPDX-License-Identifier: Apache-2.0
"""Activities: names, filters, and what is missing here."""

from __future__ import annotations

import pytest

from fastprof import ProfilerActivity, errors, supported_activities
from fastprof.record.activities import as_activity, category_mask, missing_reason, parse_activities


def test_cpu_is_supported_and_has_no_reason_to_miss() -> None:
    assert ProfilerActivity.CPU in supported_activities()
    assert missing_reason(ProfilerActivity.CPU) is None


def test_what_is_missing_has_a_reason_that_names_it() -> None:
    for activity in set(ProfilerActivity) - supported_activities():
        assert activity.name in str(missing_reason(activity))


@pytest.mark.parametrize("spelling", [ProfilerActivity.CUDA, "CUDA", "cuda"])
def test_spellings(spelling: object) -> None:
    assert as_activity(spelling) is ProfilerActivity.CUDA


def test_pytorchs_own_values() -> None:
    theirs = pytest.importorskip("torch.profiler").ProfilerActivity
    assert as_activity(theirs.CPU) is ProfilerActivity.CPU
    assert as_activity(theirs.CUDA) is ProfilerActivity.CUDA


def test_unknown_activity_lists_the_known() -> None:
    with pytest.raises(errors.ValueError, match="CPU, XPU"):
        as_activity("GPU9")


def test_filters() -> None:
    asked = parse_activities([{ProfilerActivity.CPU: ["user_annotation"]}, "CUDA"])
    assert asked == {ProfilerActivity.CPU: ("user_annotation",), ProfilerActivity.CUDA: None}
    cpu = ProfilerActivity.CPU
    for twice in (
        [{"CPU": []}, {"CPU": ["cpu_op"]}],
        [cpu, cpu],
        [cpu, {cpu: ["cpu_op"]}],
        [{cpu: []}, "cpu"],
    ):
        with pytest.raises(errors.ValueError, match="CPU is given twice"):
            parse_activities(twice)


def test_category_masks() -> None:
    assert category_mask(()) == 0
    assert category_mask(None) & 1
    assert category_mask(("user_annotation",)) & 1
    assert not category_mask(("cpu_op",)) & 1
    for name in ("cpu_op", "user_annotation", "cpu_instant_event", "python_function", "overhead"):
        assert category_mask((name.upper(),)) == category_mask((name,))
    with pytest.raises(RuntimeError, match="no activity type of CPU"):
        category_mask(("nonsense",))
