# SPDX-License-Identifier: Apache-2.0
"""Tables as text: the exact layout, and the intended differences from PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
from made_events import event

from fastprof import errors
from fastprof.base.device_type import DeviceType
from fastprof.base.formatting import flops_scale, format_memory, format_share, format_time
from fastprof.model.table import EventFlag, EventTable, Site
from fastprof.views import EventList
from fastprof.views.measures import EventViewError


def cells(line: str) -> list[str]:
    return [cell for cell in line.split("  ") if cell.strip()]


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0.000us"), (999.9996, "1000.000us"), (1000, "1.000ms"), (1e6, "1.000s"),
     (-5e6, "-5000000.000us"), (12345.6789, "12.346ms")],
)  # fmt: skip
def test_times(us: float, text: str) -> None:
    assert format_time(us) == text


def test_time_units_and_shares_and_memory() -> None:
    assert [format_time(1500, u) for u in ("s", "ms", "us")] == ["0.002s", "1.500ms", "1500.000us"]
    assert format_share(1, 3) == "33.33%"
    assert format_share(5, 0) == format_share(0, 0) == "NaN"
    assert [format_memory(b) for b in (0, 1023, 1024, -(3 << 20), 5 << 30)] == [
        "0 B", "1023 B", "1.00 KB", "-3.00 MB", "5.00 GB",
    ]  # fmt: skip
    assert flops_scale(1) == (1, "FLOPs")
    assert flops_scale(999e3)[1] == "KFLOPs"
    assert flops_scale(1e30)[1] == "PFLOPs"


def test_the_whole_text() -> None:
    events = EventList([event("a", 0, 10), event("b", 2, 5)])
    events._build_tree()
    rule = "-" * 5 + "  " + ("-" * 12 + "  ") * 6
    assert events.table(header="title").splitlines() == [
        "=" * (len(rule) - 2),
        "title",
        rule,
        " Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  ",
        rule,
        "    a        70.00%       7.000us       100.00%      10.000us      10.000us             1  ",
        "    b        30.00%       3.000us        30.00%       3.000us       3.000us             1  ",
        rule,
        "Self CPU time total: 10.000us",
    ]


def test_flops_and_source_stand_under_their_own_headers() -> None:
    events = EventList(
        [event("a", 0, 10, flops=3_000_000, stack=["f.py(1): f", "g.py(2): g"])], with_flops=True
    )
    lines = events.table().splitlines()
    header, first, second = lines[1], lines[3], lines[4]
    source = header.index("Source Location")
    assert first[source:].startswith("f.py(1): f")
    assert first.rstrip().endswith("3.000")
    assert header.rstrip().endswith("Total MFLOPs")
    assert second[source:].startswith("g.py(2): g")
    assert second[:source].strip() == ""
    assert lines[5].strip() == ""  # a blank row after each stack


def test_shares_of_a_zero_total_are_nan() -> None:
    parent, child = event("p", 0, 0), event("c", 0, 5)
    parent.append_cpu_child(child)
    parent.cpu_memory_usage = 1
    zero = EventList([parent, event("q", 0, 0)])
    child.time_range.end = 0
    assert "NaN" in zero.table()
    kernels = EventList([event("a", 0, 1, use_device="cuda")], use_device="cuda")
    kernels[0].append_kernel("k", 0, 5.0)  # no device row: the device total is 0
    assert cells(kernels.table().splitlines()[3])[7].strip() == "NaN"


def test_device_time_needs_a_device_on_some_event() -> None:
    first, second = event("a", 0, 1), event("b", 2, 3, use_device="xpu")
    second.append_kernel("k", 0, 5.0)
    assert "XPU total" in EventList([first, second]).table()  # not only the first event counts
    averages = EventList([first, second]).key_averages()
    averages[1].use_device = None
    with pytest.raises(errors.StateError, match="use_device"):
        averages.table()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_name_column_width": -1}, "invalid max_name_column_width -1. Use a whole number"),
        ({"row_limit": 1.5}, "invalid row_limit 1.5. Use a whole number"),
        ({"sort_by": 3}, "cannot sort by 3. Valid keys"),
    ],
)
def test_wrong_arguments_of_tables(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.ValueError, match=message):
        EventList([event("a", 0, 10)]).table(**wrong)


def test_rows_and_top_level_events() -> None:
    events = EventList([event("a", 0, 10), event("b", 2, 5), event("c", 20, 21)])
    events._build_tree()
    text = events.table(top_level_events_only=True, row_limit=2)
    assert "This report only display top-level ops statistics" in text
    assert [line.split()[0] for line in text.splitlines()[5:7]] == ["a", "c"]
    assert len(events.table(row_limit=1).splitlines()) == 6
    assert len(events.table(row_limit=-1).splitlines()) == 8


def test_footer_reports_unfinished_and_dropped_events() -> None:
    table = EventTable(
        {"start_ns": [0, 10], "end_ns": [100, 20], "site": [0, 1], "parent": [-1, 0],
         "flags": [0, int(EventFlag.FINISHED)]},
        sites=[Site("open"), Site("done")], dropped={"bound": 3, "clock": 1, "none": 0, "names": 8, "ends": 2},
    )  # fmt: skip
    for events in (EventList.from_table(table), EventList.from_table(table).key_averages()):
        text = events.table()
        assert "Unfinished ranges: 1 (counted up to the end of the session)\n" in text
        assert "Dropped events: 4 (bound 3, clock 1)\n" in text
        assert "shared or cut at the bound of names: 8\n" in text
        assert "Ends that found no room: 2 (shown as unfinished)\n" in text
    objects = EventList([event("a", 0, 1, finished=False)])
    assert "Unfinished ranges: 1" in objects.table()


def column_of(text: str, header: str) -> list[str]:
    """Return the cells under a header, with their spaces."""
    lines = text.splitlines()
    rulers = [i for i, line in enumerate(lines) if line.startswith("---")]
    spans, at = [], 0
    for rule in lines[rulers[0]].split():
        spans.append((at, at + len(rule)))
        at += len(rule) + 2
    (span,) = (s for s in spans if lines[rulers[0] + 1][slice(*s)].strip() == header)
    return [line[slice(*span)] for line in lines[rulers[1] + 1 : rulers[2]]]


def test_names_are_cut_at_the_width_of_their_column() -> None:
    """PyTorch's rule: names of cap - 3 characters or more are cut to cap - 3 characters, and "..." is appended."""
    names = ["n" * length for length in (10, 16, 17, 18, 30)]
    events = EventList([event(name, i, i + 1, id=i) for i, name in enumerate(names)])
    assert column_of(events.table(max_name_column_width=20), "Name") == [
        " " * 10 + "n" * 10, " " * 4 + "n" * 16, "n" * 17 + "...", "n" * 17 + "...", "n" * 17 + "...",
    ]  # fmt: skip
    assert column_of(events.table(max_name_column_width=None), "Name") == [
        name.rjust(34) for name in names
    ]
    assert column_of(events.table(max_name_column_width=100), "Name")[4] == ("n" * 30).rjust(34)


def wide_list() -> EventList:
    return EventList(
        [
            event("a" * 30, 0, 10, input_shapes=[[1, 2, 3]] * 8, cpu_memory_usage=4),
            event("b", 20, 30, input_shapes=[[1]]),
        ],
        profile_memory=True,
    )


def test_columns_that_do_not_fit_are_named_below() -> None:
    whole = wide_list().table().splitlines()
    text = wide_list().table(max_width=60)
    lines = text.splitlines()
    assert len(whole[0]) > 60 and max(map(len, lines[:-2])) <= 60
    assert lines[-1].startswith("Not shown: ")
    left_out = lines[-1].partition(": ")[2].split(", ")
    shown = " ".join(lines[1:4])
    assert "Name" in shown and not set(left_out) & {"Name", "# of Calls"}
    assert set(left_out) <= {c.strip() for c in whole[1].split("  ") if c.strip()}
    assert "Left out" not in wide_list().table(max_width=len(whole[0]))
    narrow = wide_list().table(max_width=60, sort_by="cpu_time_total")
    assert "CPU total" not in narrow.splitlines()[-1].partition(": ")[2].split(", ")


def test_only_devices_with_activities_have_device_time() -> None:
    known = "CUDA, HIP, HPU, MPS, MTIA, Metal, PrivateUse1, XPU"
    for kind in DeviceType:
        activity = event("k", 0, 5, device_type=kind, use_device="cuda")
        if kind == DeviceType.CPU:
            assert activity.device_time_total == activity.self_device_time_total == 0
        elif kind.name in known.split(", "):
            assert activity.device_time_total == activity.self_device_time_total == 5.0
        else:
            for name in ("device_time_total", "self_device_time_total"):
                with pytest.raises(EventViewError) as failed:
                    getattr(activity, name)
                assert str(failed.value) == (
                    f"events of DeviceType.{kind.name} have no device time; those of {known} do"
                )
