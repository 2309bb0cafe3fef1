# SPDX-License-Identifier: Apache-2.0
"""Times of Chrome traces are the ns nearest to the file's decimal numbers, as json reads them with Decimal."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from same_tables import one_by_one

import fastprof
from fastprof.base import errors
from fastprof.importers import json_stream

EDGES = [
    "0", "-0", "-0.0", "0.0005", "0.0015", "0.00050000000000000000000001", "0.000499999999999999999999",
    "-0.0005", "-0.0015", "1.0004999999999999999999", "2.0025", "1700000000000000.125", "1700000000000000.1255",
    "1700000000000000.1265", "1699853000000000.123", "1699853000000000.9995", "9007199254740.993",
    "8796093022207.999", "999999999999999.9999", "1234567890123456", "3999999999999999.9994", "1e3", "1E-2",
    "1.5e+3", "17e14", "1.700000000000000125e15", "1.7e15", "170000000000000012500e-5", "5e-4", "15e-4",
    "25e-5", "1e-400", "0e99999", "0.1e-99999", "0." + "0" * 50 + "1e51", "123456.7890625", "0.1234567",
    "1" + "0" * 60 + "e-60", "-1700000000000000.0625",
]  # fmt: skip


def expected_ns(text: str) -> int:
    """From the definition: the exact value, to the nearest ns, ties to even (as round() of a Fraction)."""
    exact = Decimal(text)
    return round(Fraction(exact) * 1000) if abs(exact) > Decimal("1e-9") else 0


def starts(path: Path, texts: list[str], native: bool, phase: str = "X", args: str = "{}") -> list[int]:  # fmt: skip
    event = f'{{"ph": "{phase}", "name": "a", "cat": "c", "pid": 1, "tid": 1, "args": {args}, "dur": 0, "ts": %s}}'
    data = ("[" + ",\n".join(event % text for text in texts) + "]").encode()
    path.write_bytes(data if native else one_by_one(data))
    found: list[int] = fastprof.load(path).start_ns.tolist()
    return found


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("phase", "args"), [("X", "{}"), ("X", '{"a": 1}'), ("i", "{}"), ("C", '{"v": 1}')]
)
def test_edges(tmp_path: Path, native: bool, phase: str, args: str) -> None:
    found = starts(tmp_path / "t.json", EDGES, native, phase, args)
    assert found == [expected_ns(text) for text in EDGES]


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("piece", [5, 300, 1 << 20])
def test_random_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: bool, piece: int
) -> None:
    rng = random.Random(piece)
    monkeypatch.setattr(json_stream, "_SCAN_BYTES", piece)
    monkeypatch.setattr(json_stream, "_PIECE_BYTES", piece)
    texts = []
    for _ in range(1500):
        whole = str(rng.randrange(10 ** rng.randrange(1, 16)))
        decimals = "".join(rng.choices("0123456789", k=rng.randrange(1, 9)))
        if rng.random() < 0.3:  # a tie, or just beside one
            decimals = decimals[:3].ljust(3, "0") + rng.choice(["5", "50", "49999999999", "5000000000001"])  # fmt: skip
        texts.append(whole + "." + decimals if rng.random() < 0.9 else whole)
    found = starts(tmp_path / "t.json", texts, native)
    assert found == [expected_ns(text) for text in texts]


@pytest.mark.parametrize(
    "text",
    # Times 1000, the second and third are just above 2 ** 65 and 2 ** 64.
    ["4e15", "36893488147419103.5", "18446744073709551.9", "36893488147419103.5e0", "184467440737095517e-1"],
)  # fmt: skip
def test_times_near_and_beyond_64_bits(tmp_path: Path, text: str) -> None:
    outcomes = []
    for native in (True, False):
        try:
            outcomes.append(starts(tmp_path / "t.json", [text], native))
        except errors.FormatError:
            outcomes.append([])
    fits = expected_ns(text) < 1 << 63
    assert outcomes == [[expected_ns(text)] if fits else []] * 2


def test_durations_since_1970(tmp_path: Path) -> None:
    """Every trace with absolute times: begin and duration of each event, compared with json and Decimal."""
    path = tmp_path / "t.json"
    rng = random.Random(3)
    events = [
        f'{{"ph":"X","name":"a","cat":"c","pid":1,"tid":1,"ts":17{rng.randrange(10**14)}.{rng.randrange(1000):03d},'
        f'"dur":{rng.randrange(10**6)}.{rng.randrange(1000):03d},"args":{{}}}}'
        for _ in range(500)
    ]
    data = ('{"traceEvents": [' + ",".join(events) + "]}").encode()
    wanted = json.loads(data, parse_float=Decimal)["traceEvents"]
    for encoding in (bytes, one_by_one):
        path.write_bytes(encoding(data))
        table = fastprof.load(path)
        assert table.start_ns.tolist() == [e["ts"] * 1000 for e in wanted]
        assert table.duration_ns.tolist() == [e["dur"] * 1000 for e in wanted]
