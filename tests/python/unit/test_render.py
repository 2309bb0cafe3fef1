# SPDX-License-Identifier: Apache-2.0
"""Tables as text: the exact layout, and the intended differences from PyTorch."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from fastprof import errors
from fastprof.base.device_type import DeviceType
from fastprof.base.formatting import flops_scale, format_memory, format_share, format_time
from fastprof.model.table import CodedColumn, EventFlag, EventTable, Site
from fastprof.views import EventList, FunctionEvent, FunctionEventAvg
from fastprof.views.frame import EventFrame
from fastprof.views.measures import EventViewError, device_metric_name
from fastprof.views.render import SORT_KEYS, sorted_rows


def event(name: str, start: float, end: float, thread: int = 1, **more: Any) -> FunctionEvent:
    return FunctionEvent(more.pop("id", 0), name, thread, start, end, **more)


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


def test_stack_lines_can_be_limited() -> None:
    events = EventList([event("a", 0, 10, stack=[f"f{i}" for i in range(5)])])
    for limit, lines in ((None, 5), (3, 3), (1, 1)):
        text = events.table(max_stack_lines=limit)
        assert sum(f"f{i}" in text for i in range(5)) == lines


def test_unknown_values_do_not_stop_the_table() -> None:
    """Rows without stack, shapes and flops can stand beside rows that have them."""
    events = EventList(
        [event("a", 0, 10), event("b", 20, 30, flops=2, stack=["f"], input_shapes=[[1]])],
        with_flops=True,
    )
    lines = events.table().splitlines()
    assert cells(lines[3])[-1].strip() == "--"
    assert "None" in lines[3]


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


def test_the_table_writes_nothing_to_its_rows() -> None:
    events = EventList([event("a", 0, 10, flops=None)], with_flops=True)
    before = dict(events[0].__dict__)
    assert "Total" not in events.table().splitlines()[1].replace("CPU total", "")
    assert events[0].__dict__ == before


def test_rows_and_top_level_events() -> None:
    events = EventList([event("a", 0, 10), event("b", 2, 5), event("c", 20, 21)])
    events._build_tree()
    text = events.table(top_level_events_only=True, row_limit=2)
    assert "This report only display top-level ops statistics" in text
    assert [line.split()[0] for line in text.splitlines()[5:7]] == ["a", "c"]
    assert len(events.table(row_limit=1).splitlines()) == 6
    assert len(events.table(row_limit=-1).splitlines()) == 8


def test_flops_per_second() -> None:
    events = EventList([event("a", 0, 1000, flops=2_000_000), event("b", 2000, 2001)])
    lines = events.table(flops_per_s=True).splitlines()
    assert lines[1].rstrip().endswith("GFLOPs/s")
    assert lines[3].rstrip().endswith("2.000")
    assert lines[4].rstrip().endswith("--")
    assert events[0].flops_per_s == pytest.approx(2e9)
    assert events.table(sort_by="flops_per_s")


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


def test_html_escapes_names() -> None:
    html = EventList([event("<script>&", 0, 10)])._repr_html_()
    assert "&lt;script&gt;&amp;" in html
    assert html.count("<script>") == 1 and html.count("</script>") == 1  # that of the sorting


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


def test_shapes_and_sources_are_cut_at_the_width_of_their_column() -> None:
    shapes = [[1] * length for length in (2, 6, 7)]  # as texts of 6, 18 and 21 characters
    stacks = [["f" * length] for length in (3, 18, 25)]
    events = EventList(
        [event("a", i, i + 1, id=i, input_shapes=shapes[i], stack=stacks[i]) for i in range(3)]
    )
    text = events.table(max_shapes_column_width=18, max_src_column_width=18)
    assert [cell for cell in column_of(text, "Input Shapes") if cell.strip()] == [
        str(shapes[0]).rjust(18), str(shapes[1]), str(shapes[2])[:18],
    ]  # fmt: skip
    assert [cell for cell in column_of(text, "Source Location") if cell.strip()] == [
        "fff".ljust(18), "f" * 18, "..." + "f" * 15,
    ]  # fmt: skip
    wide = events.table(max_shapes_column_width=None, max_src_column_width=None)
    assert column_of(wide, "Input Shapes")[-2] == str(shapes[2]).rjust(25)
    assert column_of(wide, "Source Location")[-2] == ("f" * 25).ljust(29)


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


def test_shapes_are_cut_before_columns_go() -> None:
    text = wide_list().table(max_width=120)
    assert "Left out" not in text
    assert "\n" + "a" * 12 + "..." + "a" * 12 + "  " in text and "  [[1, 2, 3], ...1, 2, 3]" in text


def test_one_shape_for_all_rows() -> None:
    table = EventTable(
        {"start_ns": [0, 5], "end_ns": [3, 9], "site": [0, 0]},
        sites=[Site("a")],
        coded={"input_shapes": CodedColumn(np.broadcast_to(np.int32(0), (2,)), ([[7, 7]],))},
    )
    assert EventList.from_table(table).table().count("[[7, 7]]") == 2


def test_numbers_are_never_cut() -> None:
    events = EventList([event("a" * 30, 0, 10), event("b" * 30, 20, 123456)])
    whole = events.table().split()
    for width in (1, 40, 80):
        for cell in events.table(max_width=width).splitlines():
            numbers = [word for word in cell.split() if word[0].isdigit()]
            assert all(number in whole for number in numbers)
            assert all("..." not in word or "a" in word or "b" in word for word in cell.split())


def test_sources_keep_their_end_in_a_table_that_is_made_to_fit() -> None:
    frames = [f"{'folder/' * 6}file{i}.py(1): f{i}" for i in range(3)]
    events = EventList([event("a" * 50, 0, 10, stack=frames), event("b", 20, 30)])
    whole = events.table(max_src_column_width=75)
    assert all(frame in whole for frame in frames)
    text = events.table(max_src_column_width=75, max_width=140)
    assert "Left out" not in text
    lines = text.splitlines()
    rulers = [i for i, line in enumerate(lines) if line.startswith("---")]
    width = len(lines[rulers[0]].split()[-1])  # the source location is the last column
    body = [line.rstrip() for line in lines[rulers[1] + 1 : rulers[2]]]
    assert 20 < width < len(frames[0])
    assert [line[-width:] for line in body if ".py" in line] == [
        "..." + frame[3 - width :] for frame in frames
    ]


def test_the_device_total_counts_each_activity_once() -> None:
    """Device events count with their own time; of CPU events, only those of the legacy profiler count."""

    def total(*events: FunctionEvent) -> str:
        text = EventList(list(events), use_device="cuda").table()
        return text.rpartition("Self CUDA time total: ")[2].strip()

    def op(legacy: bool) -> FunctionEvent:
        made = event("op", 0, 10, is_legacy=legacy, use_device="cuda")
        made.append_kernel("k", 0, 3.0)
        return made

    kernel = event("k", 20, 27, device_type=DeviceType.CUDA, use_device="cuda")
    assert total(op(False), kernel) == "7.000us"
    assert total(op(True), kernel) == "10.000us"
    assert total(op(True), op(False)) == "3.000us"


def test_a_table_fits_into_exactly_its_width() -> None:
    def lines(max_width: int | None = None) -> list[str]:
        return [line.rstrip() for line in wide_list().table(max_width=max_width).splitlines()]

    width = max(map(len, lines()))
    assert lines(width) == lines()
    assert lines(width - 1) != lines()


def test_times_of_columns_are_in_us() -> None:
    """A table has ns; what is shown is in us, or in the unit that is asked for."""
    table = EventTable({"start_ns": [0], "end_ns": [1_500_000], "site": [0]}, sites=[Site("a")])
    events = EventList.from_table(table)
    assert column_of(events.table(), "CPU total") == ["     1.500ms"]
    assert "1500.000us" in events.table(time_unit="us") and "0.002s" in events.table(time_unit="s")


@pytest.mark.parametrize(
    ("key", "header"),
    [("cpu_time_total", "CPU total"), ("self_cpu_time_total", "Self CPU"), ("self_cpu_memory_usage", "Self CPU Mem")],
)  # fmt: skip
def test_the_column_that_rows_are_sorted_by_stays_longest(key: str, header: str) -> None:
    lines = wide_list().table(max_width=50, sort_by=key).splitlines()
    left_out = lines[-1].removeprefix("Not shown: ").split(", ")
    assert header not in left_out and len(left_out) >= 5


def words_of(text: str, line: int) -> list[str]:
    """Return the cells of a line of a table; headers may be wider than their columns, as in PyTorch."""
    return re.split(" {2,}", text.splitlines()[line].strip())


TIMES = ["Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]


@pytest.mark.parametrize(
    ("event_fields", "list_options", "expected"),
    [
        ({}, {}, [*TIMES, "# of Calls"]),
        ({"cpu_memory_usage": 8}, {}, [*TIMES, "# of Calls"]),
        ({}, {"profile_memory": True}, [*TIMES, "CPU Mem", "Self CPU Mem", "# of Calls"]),
        (
            {"device_memory_usage": 8, "use_device": "cuda"},
            {"profile_memory": True, "use_device": "cuda"},
            [*TIMES, "CPU Mem", "Self CPU Mem", "CUDA Mem", "Self CUDA Mem", "# of Calls"],
        ),
        (
            {"device_memory_usage": -8, "use_device": "cuda"},
            {"profile_memory": True, "use_device": "cuda"},
            [*TIMES, "CPU Mem", "Self CPU Mem", "# of Calls"],
        ),
        ({"node_id": 0}, {}, [*TIMES, "# of Calls", "Node ID"]),
        ({"node_id": -1}, {}, [*TIMES, "# of Calls"]),
        ({"input_shapes": [[1]]}, {}, [*TIMES, "# of Calls", "Input Shapes"]),
        ({"input_shapes": []}, {}, [*TIMES, "# of Calls"]),
        ({"overload_name": "out"}, {}, ["Overload Name", *TIMES, "# of Calls"]),
        ({"overload_name": ""}, {}, [*TIMES, "# of Calls"]),
        ({"stack": []}, {}, [*TIMES, "# of Calls"]),
        ({"flops": 5}, {}, [*TIMES, "# of Calls"]),
        ({"flops": 5}, {"with_flops": True}, [*TIMES, "# of Calls", "Total FLOPs"]),
    ],
)
def test_columns_by_what_is_known(
    event_fields: dict[str, Any], list_options: dict[str, Any], expected: list[str]
) -> None:
    events = EventList([event("a", 0, 10, **event_fields)], **list_options)
    assert words_of(events.table(), 1) == ["Name", *expected]


def test_every_column_of_a_device() -> None:
    op = event(
        "op",
        0,
        1000,
        use_device="cuda",
        cpu_memory_usage=2048,
        device_memory_usage=3 << 20,
        node_id=4,
    )
    op.append_kernel("k", 0, 300.0)
    kernel = event("k", 100, 400, device_type=DeviceType.CUDA, use_device="cuda")
    events = EventList([op, kernel], use_device="cuda", profile_memory=True)
    text = events.table()
    columns = zip(*(words_of(text, line) for line in (1, 3, 4)), strict=True)
    assert {header: [first, second] for header, first, second in columns} == {
        "Name": ["op", "k"],
        "Self CPU %": ["100.00%", "0.00%"],
        "Self CPU": ["1.000ms", "0.000us"],
        "CPU total %": ["100.00%", "0.00%"],
        "CPU total": ["1.000ms", "0.000us"],
        "CPU time avg": ["1.000ms", "0.000us"],
        "Self CUDA": ["300.000us", "300.000us"],
        "Self CUDA %": ["100.00%", "100.00%"],
        "CUDA total": ["300.000us", "300.000us"],
        "CUDA time avg": ["300.000us", "300.000us"],
        "CPU Mem": ["2.00 KB", "0 B"],
        "Self CPU Mem": ["2.00 KB", "0 B"],
        "CUDA Mem": ["3.00 MB", "0 B"],
        "Self CUDA Mem": ["3.00 MB", "0 B"],
        "# of Calls": ["1", "1"],
        "Node ID": ["4", "-1"],
    }
    assert text.splitlines()[-2:] == [
        "Self CPU time total: 1.000ms", "Self CUDA time total: 300.000us",
    ]  # fmt: skip


def test_averages_are_by_call_and_async_shares_are_0() -> None:
    events = EventList([event("a", 0, 10), event("a", 20, 50), event("b", 0, 40, is_async=True)])
    text = events.key_averages().table()
    rows = [
        [c.strip() for c in column_of(text, header)]
        for header in ("Name", "CPU time avg", "CPU total %")
    ]
    assert rows == [["a", "b"], ["20.000us", "40.000us"], ["100.00%", "0"]]


@pytest.mark.parametrize("device", ["device", "cuda", "xpu", "privateuse1"])
def test_every_spelling_of_a_device_sorts_alike(device: str) -> None:
    ops = [event(name, i, i + 1, use_device="cuda", id=i) for i, name in enumerate("abc")]
    for op, (own, memory) in zip(ops, ((2.0, 30), (3.0, 10), (1.0, 20)), strict=True):
        op.append_kernel("k", 0, own)
        op.device_memory_usage = memory
    frame = EventList(ops, use_device="cuda")._frame()
    for key in ("{}_time_total", "self_{}_time_total", "{}_time"):
        assert sorted_rows(frame, key.format(device)).tolist() == [1, 0, 2]
    for key in ("{}_memory_usage", "self_{}_memory_usage"):
        assert sorted_rows(frame, key.format(device)).tolist() == [0, 2, 1]
        assert key.format(device) in SORT_KEYS
    assert device_metric_name(f"self_{device}_time_total") == "self_device_time_total"


def test_sort_keys_are_listed_once() -> None:
    assert len(SORT_KEYS) == len(set(SORT_KEYS)) and SORT_KEYS[0] == "key"
    assert {"count", "cpu_time", "flops_per_s", "self_xpu_memory_usage"} <= set(SORT_KEYS)
    assert not any(key.startswith("cpu") and "xpu" in key for key in SORT_KEYS)


def test_derived_values_of_events() -> None:
    average = EventList([event("a", 0, 4, flops=8), event("a", 10, 16, flops=2)]).key_averages()[0]
    assert (average.cpu_time, average.cpu_time_str, average.cpu_time_total_str) == (
        5.0,
        "5.000us",
        "10.000us",
    )
    assert average.flops_per_s == pytest.approx(1e6)
    average.flops = 0
    assert average.flops_per_s == 0.0
    tiny = event("a", 0, 0.5, flops=3)
    assert tiny.flops_per_s == pytest.approx(6e6)
    assert event("a", 5, 5, flops=3).flops_per_s == event("a", 5, 4, flops=3).flops_per_s == 0.0
    average.count = 0
    assert average.cpu_time == average.device_time == 0.0


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


def test_totals_of_averages_and_their_text() -> None:
    first, second = event("a", 0, 10, flops=None), event("a", 20, 50, flops=6)
    average = FunctionEventAvg()
    for each, flops in ((first, 0), (second, 6), (first, 6), (second, 12)):
        average += each
        assert average.flops == flops
    assert (average.count, average.cpu_time_total, average.cpu_time) == (4, 80.0, 20.0)
    assert repr(average) == (
        "<FunctionEventAvg key=a self_cpu_time=80.000us cpu_time=20.000us  self_cuda_time=0.000us "
        "cuda_time=0.000us input_shapes=None cpu_memory_usage=0 cuda_memory_usage=0>"
    )
    average.use_device = "xpu"
    assert "self_xpu_time=0.000us xpu_time=0.000us" in repr(average)
    for other, text in (
        (3, "cannot add a int to an average"),
        (event("b", 0, 1), "cannot add 'b' to the average of 'a'"),
    ):
        with pytest.raises(EventViewError, match=text):
            average.add(other)


def test_flops_per_second_of_rows_without_time_are_zero() -> None:
    events = EventList([event("a", 0, 1000, flops=2_000_000), event("b", 5, 5, flops=3)])
    assert EventFrame.from_events(events).flops_per_s().tolist() == [2e9, 0.0]


def test_a_child_of_the_first_row_is_not_at_the_top() -> None:
    table = EventTable(
        {"start_ns": [0, 10], "end_ns": [90, 20], "parent": [-1, 0], "site": [0, 1]},
        sites=[Site("outer"), Site("inner")],
    )
    text = EventList.from_table(table).table(top_level_events_only=True)
    assert "outer" in text and "inner" not in text
