# SPDX-License-Identifier: Apache-2.0
"""Perfetto traces as other programs write them: packets, and the slices, counters and flows that they encode.

Unit tests compare the reader with these lists; integration tests compare both with Perfetto's own trace processor.
"""

from __future__ import annotations

from perfetto_scenario import (
    BEGIN,
    DEFAULTS,
    END,
    INSTANT,
    NAMES,
    NEEDED,
    THREAD,
    Scenario,
    event,
    legacy,
    state,
    track,
)
from perfetto_value_scenarios import VALUE_SCENARIOS

SCENARIOS: dict[str, Scenario] = {
    "inline names, no state": Scenario(
        [
            track(5, **THREAD),
            event(100, BEGIN, "outer", track_uuid=5, categories=["a"]),
            event(110, BEGIN, "inner", track_uuid=5, categories=["a", "b"]),
            event(120, END, track_uuid=5),
            event(150, INSTANT, "mark", track_uuid=5, categories=["c"]),
            event(200, END, track_uuid=5),
        ],
        [(100, 100, "outer", "a"), (110, 10, "inner", "a,b"), (150, 0, "mark", "c")],
        threads={"outer": (7, 71, "worker")},
    ),
    "interned names and defaults": Scenario(
        [
            state(**NAMES, **DEFAULTS),
            track(5, **THREAD),
            event(100, BEGIN, sequence_flags=NEEDED, name_iid=1, category_iids=[1]),
            event(105, BEGIN, sequence_flags=NEEDED, name_iid=2),
            event(110, END, sequence_flags=NEEDED),
            event(130, END, sequence_flags=NEEDED),
            event(140, BEGIN, sequence_flags=NEEDED, name_iid=1, category_iids=[1]),
            event(141, END, sequence_flags=NEEDED),
        ],
        [(100, 30, "read", "io"), (105, 5, "write", ""), (140, 1, "read", "io")],
        threads={"read": (7, 71, "worker")},
    ),
    "state needed before it was cleared, and after a loss": Scenario(
        [
            track(5, **THREAD),
            event(90, INSTANT, sequence_flags=NEEDED, name_iid=1, track_uuid=5),
            {"trusted_packet_sequence_id": 1, **NAMES},
            state(**NAMES),
            event(100, INSTANT, sequence_flags=NEEDED, name_iid=1, track_uuid=5),
            event(
                105, INSTANT, "lost", sequence_flags=NEEDED, previous_packet_dropped=1, track_uuid=5
            ),
            event(106, INSTANT, "inline", track_uuid=5),
            state(interned_data={"event_names": [{"iid": 1, "name": "again"}]}),
            event(110, INSTANT, sequence_flags=NEEDED, name_iid=1, track_uuid=5),
        ],
        [(100, 0, "read", ""), (106, 0, "inline", ""), (110, 0, "again", "")],
        skipped_packets={
            "needs state that was lost or not yet cleared": 2,
            "interned data before the state was cleared": 1,
            "lost before they were written": 1,
        },
    ),
    "text that is not interned": Scenario(
        [state(), track(5, **THREAD), event(100, INSTANT, name_iid=9, track_uuid=5)],
        [(100, 0, "", "")],
        skipped_events={"text that is not interned": 1},
    ),
    "ends without begins, begins without ends": Scenario(
        [
            track(5, **THREAD),
            event(90, END, track_uuid=5),
            event(100, BEGIN, "open", track_uuid=5),
            event(110, BEGIN, "closed", track_uuid=5),
            event(120, END, track_uuid=5),
            event(130, BEGIN, "also open", track_uuid=5),
        ],
        [(100, -1, "open", ""), (110, 10, "closed", ""), (130, -1, "also open", "")],
        skipped_events={"end without begin": 1},
    ),
    "an end by name closes what lies within": Scenario(
        [
            track(5, **THREAD),
            event(100, BEGIN, "outer", track_uuid=5),
            event(110, BEGIN, "inner", track_uuid=5),
            event(150, END, "outer", track_uuid=5),
            event(155, END, "nobody", track_uuid=5),
            event(160, BEGIN, "next", track_uuid=5),
            event(170, END, track_uuid=5),
        ],
        [(100, 50, "outer", ""), (110, 40, "inner", ""), (160, 10, "next", "")],
        skipped_events={"end without begin": 1, "begin without end, within a slice that ended": 1},
    ),
    "events out of order": Scenario(
        [
            track(5, **THREAD),
            event(100, BEGIN, "a", track_uuid=5),
            event(200, END, track_uuid=5),
            event(110, BEGIN, "b", track_uuid=5),
            event(120, END, track_uuid=5),
        ],
        [(100, 100, "a", ""), (110, 10, "b", "")],
    ),
    "sequences interleaved": Scenario(
        [
            state(1, interned_data={"event_names": [{"iid": 1, "name": "one"}]}),
            state(2, interned_data={"event_names": [{"iid": 1, "name": "two"}]}),
            track(5, 1, **THREAD),
            track(6, 2, thread={"pid": 7, "tid": 72, "thread_name": "second"}),
            event(100, BEGIN, seq=1, sequence_flags=NEEDED, name_iid=1, track_uuid=5),
            event(101, BEGIN, seq=2, sequence_flags=NEEDED, name_iid=1, track_uuid=6),
            event(105, END, seq=1, track_uuid=5),
            event(106, END, seq=2, track_uuid=6),
        ],
        [(100, 5, "one", ""), (101, 5, "two", "")],
        threads={"one": (7, 71, "worker"), "two": (7, 72, "second")},
    ),
    "default track": Scenario(
        [event(100, BEGIN, "a"), event(110, END), event(120, INSTANT, "b", seq=2)],
        [(100, 10, "a", ""), (120, 0, "b", "")],
    ),
    "tracks with parents": Scenario(
        [
            track(1, process={"pid": 7, "process_name": "server"}),
            track(5, parent_uuid=1, **THREAD),
            track(8, parent_uuid=5, name="requests"),
            track(9, parent_uuid=1, name="jobs"),
            track(10, name="global"),
            event(100, BEGIN, "on thread", track_uuid=5),
            event(101, BEGIN, "request", track_uuid=8),
            event(102, BEGIN, "job", track_uuid=9),
            event(103, BEGIN, "all", track_uuid=10),
            event(104, INSTANT, "of process", track_uuid=1),
            *(event(110 + uuid, END, track_uuid=uuid) for uuid in (5, 8, 9, 10)),
        ],
        [
            (100, 15, "on thread", ""), (101, 17, "request", ""), (102, 17, "job", ""), (103, 17, "all", ""),
            (104, 0, "of process", ""),
        ],
        threads={
            "on thread": (7, 71, "worker"), "request": (7, 71, "requests"), "job": (7, 0, "jobs"),
            "all": (0, 0, "global"), "of process": (7, 0, "server"),
        },
    ),
    "descriptors of older traces": Scenario(
        [
            state(
                thread_descriptor={"pid": 7, "tid": 71, "thread_name": "old", "reference_timestamp_us": 1}
            ),
            {
                "trusted_packet_sequence_id": 1,
                "process_descriptor": {"pid": 7, "cmdline": ["/bin/x", "-v"]},
            },
            event(None, BEGIN, "a", sequence_flags=NEEDED, timestamp_delta_us=2),
            event(None, END, sequence_flags=NEEDED, timestamp_delta_us=5),
            event(None, INSTANT, "b", sequence_flags=NEEDED, timestamp_absolute_us=20),
            event(None, INSTANT, "c", sequence_flags=NEEDED, timestamp_delta_us=1),
        ],
        [(3000, 5000, "a", ""), (20_000, 0, "b", ""), (9000, 0, "c", "")],
        threads={"a": (7, 71, "old")},
    ),
    "legacy phases of a thread": Scenario(
        [
            state(thread_descriptor={"pid": 7, "tid": 71, "thread_name": "old"}),
            legacy(100, "B", "begun", categories=["x"]),
            legacy(110, "X", "whole", categories=["x"], duration_us=2),
            legacy(5000, "i", "instant", categories=["x"]),
            legacy(5100, "I", "instant 2", categories=["x"]),
            legacy(9000, "E", "begun", categories=["x"]),
            legacy(9500, "X", "elsewhere", tid_override=99, duration_us=1),
        ],
        [
            (100, 8900, "begun", "x"), (110, 2000, "whole", "x"), (5000, 0, "instant", "x"),
            (5100, 0, "instant 2", "x"), (9500, 1000, "elsewhere", ""),
        ],
        threads={"begun": (7, 71, "old"), "elsewhere": (7, 99, "")},
    ),
    "legacy asynchronous events": Scenario(
        [
            state(thread_descriptor={"pid": 7, "tid": 71}),
            legacy(100, "b", "one", categories=["x"], unscoped_id=1),
            legacy(110, "b", "two", categories=["x"], unscoped_id=2),
            legacy(120, "n", "inside", categories=["x"], unscoped_id=1),
            legacy(130, "e", "one", categories=["x"], unscoped_id=1),
            legacy(140, "e", "two", categories=["x"], unscoped_id=2),
            legacy(150, "b", "local", categories=["x"], local_id=1),
            legacy(151, "b", "scoped", categories=["x"], global_id=1, id_scope="s"),
            legacy(160, "e", "local", categories=["x"], local_id=1),
            legacy(170, "e", "scoped", categories=["x"], global_id=1, id_scope="s"),
            legacy(180, "S", "old", categories=["x"], unscoped_id=4),
            legacy(190, "F", "old", categories=["x"], unscoped_id=4),
        ],
        [
            (100, 30, "one", "x"), (110, 30, "two", "x"), (120, 0, "inside", "x"), (150, 10, "local", "x"),
            (151, 19, "scoped", "x"), (180, 10, "old", "x"),
        ],
        threads={"one": (7, 71, "")},
    ),
    "legacy flows": Scenario(
        [
            state(thread_descriptor={"pid": 7, "tid": 71}),
            legacy(100, "X", "from", categories=["x"], duration_us=1),
            legacy(100, "s", "f", categories=["x"], unscoped_id=9),
            legacy(5000, "X", "over", categories=["x"], duration_us=1),
            legacy(5000, "t", "f", categories=["x"], unscoped_id=9),
            legacy(9000, "X", "to", categories=["x"], duration_us=1),
            legacy(9000, "f", "f", categories=["x"], unscoped_id=9, bind_to_enclosing=True),
        ],
        [(100, 1000, "from", "x"), (5000, 1000, "over", "x"), (9000, 1000, "to", "x")],
        flows=[("from", "over"), ("over", "to")],
    ),
    "flows by what events bind to": Scenario(
        [
            state(thread_descriptor={"pid": 7, "tid": 71}),
            legacy(100, "X", "from", categories=["x"], duration_us=1, bind_id=5, flow_direction=2),
            legacy(3000, "X", "none", categories=["x"], duration_us=1, bind_id=5),
            legacy(5000, "X", "over", categories=["x"], duration_us=1, bind_id=5, flow_direction=3),
            legacy(
                7000, "X", "other", categories=["x"], duration_us=1, bind_id=6, flow_direction=2
            ),
            legacy(9000, "X", "to", categories=["x"], duration_us=1, bind_id=5, flow_direction=1),
        ],
        [
            (100, 1000, "from", "x"), (3000, 1000, "none", "x"), (5000, 1000, "over", "x"),
            (7000, 1000, "other", "x"), (9000, 1000, "to", "x"),
        ],
        flows=[("from", "over"), ("over", "to")],
    ),
    "legacy counters and names": Scenario(
        [
            state(thread_descriptor={"pid": 7, "tid": 71}),
            legacy(
                100, "C", "bytes",
                debug_annotations=[
                    {"name": "in", "int_value": 3},
                    {"name": "out", "double_value": 0.5},
                ],
            ),
            legacy(110, "C", "single", debug_annotations=[{"name": "value", "int_value": -3}]),
            legacy(115, "C", "text", debug_annotations=[{"name": "value", "string_value": "x"}]),
            legacy(
                120, "M", "thread_name",
                debug_annotations=[{"name": "name", "string_value": "named"}],
            ),
            legacy(
                121, "M", "process_name",
                debug_annotations=[{"name": "name", "string_value": "called"}],
            ),
            legacy(
                122, "M", "process_labels",
                debug_annotations=[{"name": "labels", "string_value": "x"}],
            ),
            legacy(130, "i", "here"),
            legacy(140, "D", "object"),
        ],
        [(130, 0, "here", "")],
        counters=[(100, "bytes in", 3), (100, "bytes out", 0.5), (110, "single", -3)],
        threads={"here": (7, 71, "named")},
        skipped_events={"value of a counter that is no number": 1, "phase M": 1, "phase D": 1},
        oracle=False,  # it leaves these to the JSON export
    ),
}  # fmt: skip
SCENARIOS |= VALUE_SCENARIOS
