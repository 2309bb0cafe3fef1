# SPDX-License-Identifier: Apache-2.0
"""Every JSON that a profile writes parses strictly, whatever names, arguments and metadata contain."""

from __future__ import annotations

import gzip
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import strict_json
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fastprof
from fastprof.exporters.speedscope import export_speedscope

# Not st.text(), which leaves out lone surrogates.
characters = st.characters() | st.sampled_from(
    '"\\/\n\r\t\b\f\x00\x01\x1f\x7f\u2028\ufeff\ud800\udc80\ude00😀'
)
texts = st.lists(characters, max_size=12).map("".join)
numbers = st.integers() | st.floats() | st.booleans()
values = texts | numbers | st.lists(texts, max_size=3) | st.lists(numbers, max_size=3)
keywords = st.dictionaries(
    texts.filter(lambda t: t not in ("name", "args", "shapes", "flops", "node_id", "self")),
    values,
    max_size=4,
)
metadata = st.dictionaries(texts, texts, max_size=3)


def strict(path: Path) -> Any:
    data = path.read_bytes()
    return strict_json.strict(gzip.decompress(data) if path.suffix == ".gz" else data)


def shown(text: str) -> str:
    """Return a name as files contain it: NUL as the symbol U+2400, surrogates as U+FFFD."""
    return "".join(
        "\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text.replace("\0", "\u2400")
    )


@settings(max_examples=120, deadline=None)
@given(texts, keywords, metadata, texts, st.lists(st.lists(st.integers(0, 9)), max_size=2))
@example('"', {"": math.nan, "\\": [math.inf, -math.inf]}, {'a"': "\ud800"}, "\0", [[]])
# Names and arguments above 64 KB are cut: test_range_names.py.
@example("n" * 60_000, {"k" * 1000: "v" * 60_000}, {}, "t" * 100_000, [[1 << 40]])
@example("😀", {"big": 1 << 200, "n": 5e-324}, {"\udfff": "\\u0000"}, "\ud83d\ude00", [])
@example(
    "x",
    dict.fromkeys(map(chr, (0xD800, 0xD801)), 1),
    dict.fromkeys(map(chr, (0xD800, 0xD801)), ""),
    "",
    [],
)
def test_everything_that_a_profile_writes(
    name: str, arguments: dict[str, Any], members: dict[str, str], text: str, shapes: Any
) -> None:
    with fastprof.profile(record_shapes=True, with_stack=True, profile_memory=True) as p:
        with fastprof.record_function(name, text, shapes=shapes, **arguments):
            fastprof.mark(text)
            fastprof.counter(text, 1.5)
            fastprof.counter(name, math.nan)
            fastprof.flow(1).begin()
            fastprof.report_memory_usage(1, 64, 64, 64)
    for key, value in members.items():
        p.add_metadata(key, value)
    p.add_metadata_json("json", json.dumps([name, text]))
    with tempfile.TemporaryDirectory() as folder:
        plain, packed, list_, flame, rows, memory = (
            Path(folder, file)
            for file in ("t.json", "t.json.gz", "list.json", "f.json", "rows.json", "m.json")
        )
        p.export_chrome_trace(plain)
        p.export_chrome_trace(packed)
        p.events().export_chrome_trace(list_)
        export_speedscope(p.event_table, flame, name)
        p.events().export_json(rows)
        p.export_memory_timeline(memory)
        trace = strict(plain)
        assert strict(packed)["traceEvents"] == trace["traceEvents"]
        for path in (list_, flame, rows, memory):
            strict(path)
        # fastprof reads what it has written.
        table = fastprof.load(plain)
        fastprof.save(p, Path(folder, "t.fastprof"))
        again = fastprof.load(Path(folder, "t.fastprof"))
    written = [e["name"] for e in trace["traceEvents"] if e.get("cat") == "user_annotation"]
    assert written == [shown(name)]
    assert trace["json"] == json.loads(json.dumps([name, text]))
    assert {table.name(row) for row in range(len(table))} >= {shown(name)}
    assert [again.name(row) for row in range(len(again))] == [
        json.loads(json.dumps(p.event_table.name(row))) for row in range(len(p.event_table))
    ]
