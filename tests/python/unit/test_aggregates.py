# SPDX-License-Identifier: Apache-2.0
"""Statistics of a flight recorder's ranges: against a profile, NumPy and ddsketch; merged, compared, in files."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting_threads import run_threads

import fastprof
from fastprof import errors, flight_recorder, record_function
from fastprof.model.aggregate_comparison import compare_aggregates
from fastprof.model.aggregates import Aggregates

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="flight recorders are of Linux")

QUANTILES = (0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0)


def of_durations(**durations: Any) -> Aggregates:
    """Aggregates of lists of ns by the definition of the bins, for what recordings cannot be made to contain."""
    columns: dict[str, list[Any]] = {"bins": [], "bin_counts": [], "bin_ends": []}
    for values in durations.values():
        positive = np.asarray([value for value in values if value > 0], np.float64)
        bins = np.ceil(np.log(positive) / np.log(1.01 / 0.99)).astype(np.int64)
        numbers, counts = np.unique(bins, return_counts=True)
        columns["bins"] += numbers.tolist()
        columns["bin_counts"] += counts.tolist()
        columns["bin_ends"].append(len(columns["bins"]))

    def of(value: Callable[[Any], Any]) -> Any:
        return np.array([value(np.asarray(values)) for values in durations.values()], np.int64)

    return Aggregates(
        names=tuple(durations),
        categories=("user_annotation",) * len(durations),
        count=of(len),
        zeros=of(lambda values: (values == 0).sum()),
        collapsed=of(lambda values: 0),
        total_ns=of(np.sum),
        self_ns=of(np.sum),
        min_ns=of(np.min),
        max_ns=of(np.max),
        bins=np.array(columns["bins"], np.uint16),
        bin_counts=np.array(columns["bin_counts"], np.uint64),
        bin_ends=np.array(columns["bin_ends"], np.uint64),
        facts={"window": "all", "ranges": 1, "dropped": 0, "open": 0},
    )


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "processes"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("FASTPROF_PROCESS_FOLDER", str(folder))
    flight_recorder.start(max_bytes=16 << 20, aggregate=tmp_path / "kept")
    yield tmp_path / "kept"
    flight_recorder.stop()


def work(rounds: int) -> None:
    for number in range(rounds):
        with record_function("outer"):
            for _ in range(number % 5):
                with record_function("inner"):
                    sum(range(number % 97))


def test_rows_are_those_of_a_profile(recorder: Path) -> None:
    with fastprof.profile() as profile:
        run_threads(*(threading.Thread(target=work, args=(4000,)) for _ in range(3)))
    found = flight_recorder.aggregates()
    averages = profile.key_averages().to_columns()
    expected = {name: row for row, name in enumerate(averages["name"])}
    assert found.facts["dropped"] == 0
    events = profile.events()
    for name in ("outer", "inner"):
        row, other = found.names.index(name), expected[name]
        count = int(found.count[row])
        assert count == averages["count"][other]
        # A duration is rounded to 1 ns, there and here, and by two calibrations of the clock.
        for here, there in (
            ("total_ns", "cpu_time_total_us"),
            ("self_ns", "self_cpu_time_total_us"),
        ):
            assert getattr(found, here)[row] / 1e3 == pytest.approx(
                averages[there][other], rel=1e-3, abs=count * 3e-3
            )
        durations = np.array(
            [event.time_range.elapsed_us() * 1e3 for event in events if event.name == name]
        )
        for q in QUANTILES:
            exact = np.quantile(durations, q, method="lower" if q < 1 else "linear")
            assert abs(found.quantile_ns(row, q) - exact) <= 0.012 * exact + 3


def test_a_fork_has_its_own(recorder: Path) -> None:
    work(100)
    pid = os.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(BaseException):
            work(10)
            found = flight_recorder.aggregates()
            code = 0 if int(found.count[found.names.index("outer")]) == 10 else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    work(100)
    found = flight_recorder.aggregates()
    assert int(found.count[found.names.index("outer")]) == 200


@pytest.mark.integrations
def test_bins_are_those_of_ddsketch() -> None:
    ddsketch = pytest.importorskip("ddsketch", exc_type=ImportError)
    durations = np.random.default_rng(1).lognormal(9, 2, 20000).astype(np.int64)
    durations[:100] = 0
    sketch = ddsketch.DDSketch(relative_accuracy=0.01)
    for duration in durations.tolist():
        sketch.add(duration)
    found = of_durations(name=durations)
    bins, counts = found.histogram(0)
    store = sketch._store
    theirs = {store.offset + at: count for at, count in enumerate(store.bins) if count}
    assert dict(zip(bins.tolist(), counts.tolist(), strict=True)) == theirs
    for q in QUANTILES[1:-1]:
        assert found.quantile_ns(0, q) == pytest.approx(sketch.get_quantile_value(q), rel=1e-9)


def test_merged_is_what_all_together_gives(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    parts = [random.lognormal(8, 1.5, size).astype(np.int64) for size in (10, 1000, 5000)]
    merged = Aggregates.merged(
        [of_durations(a=part, **{f"b{at}": part}) for at, part in enumerate(parts)]
    )
    whole = of_durations(a=np.concatenate(parts))
    row = merged.names.index("a")
    assert [merged.quantile_ns(row, q) for q in QUANTILES] == [
        whole.quantile_ns(0, q) for q in QUANTILES
    ]
    assert (merged.count[row], merged.total_ns[row]) == (whole.count[0], whole.total_ns[0])
    merged.save(tmp_path / "all.aggregates")
    again = Aggregates.load(tmp_path / "all.aggregates")
    assert again.names == merged.names and again.facts == merged.facts
    assert all(
        (getattr(again, name) == getattr(merged, name)).all()
        for name in ("bins", "bin_counts", "min_ns")
    )


@pytest.mark.parametrize("cut", [0, 100, 700])
def test_damaged_files_are_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.aggregates"
    of_durations(a=[1, 2, 3]).save(path)
    with pytest.raises(errors.FormatError, match=r"aggregates.*`fastprof report`"):
        fastprof.load(path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(errors.FormatError):
        Aggregates.load(path)


def test_rows_that_there_are_not() -> None:
    with pytest.raises(errors.ValueError, match="no row 99: use a number from 0 to 0"):
        of_durations(a=[1, 2, 3]).quantile_ns(99, 0.5)
    with pytest.raises(errors.ValueError, match=r"invalid row_limit '3'\. Use a whole number"):
        of_durations(a=[1]).table(row_limit="3")  # type: ignore[arg-type]
    assert "1 more name" in of_durations(a=[1], b=[2]).table(row_limit=1)


def test_differences_are_significant_if_scipy_says_so() -> None:
    random = np.random.default_rng(3)
    a = random.lognormal(8, 1, 3000).astype(np.int64)
    found = {
        each.name: each
        for each in compare_aggregates(
            of_durations(same=a, slower=a, few=a[:3], gone=a),
            of_durations(
                same=random.lognormal(8, 1, 2000).astype(np.int64),
                slower=(random.lognormal(8.2, 1, 2000)).astype(np.int64),
                few=a[:3] * 2,
                new=a,
            ),
        )
    }
    assert [name for name, each in found.items() if each.is_significant] == ["slower"]
    assert found["slower"].longer == pytest.approx(0.556, abs=0.02)
    assert found["gone"].count == (3000, 0) and found["new"].count == (0, 3000)
    stats = pytest.importorskip("scipy.stats", exc_type=ImportError)
    b = (a * 1.02).astype(np.int64)
    binned = [np.ceil(np.log(each) / np.log(1.01 / 0.99)) for each in (a, b)]
    exact = stats.mannwhitneyu(*binned, use_continuity=False, method="asymptotic")
    (one,) = compare_aggregates(of_durations(a=a), of_durations(a=b))
    assert one.p == pytest.approx(exact.pvalue, rel=1e-6)


def test_commands_read_the_files(recorder: Path, tmp_path: Path, capsys: Any) -> None:
    from fastprof.cli.main import main

    for number in (1, 2):
        work(3000)
        flight_recorder.aggregates().save(tmp_path / f"{number}.aggregates")
    one, two = (str(tmp_path / f"{number}.aggregates") for number in (1, 2))
    assert main(["report", one, two, "--sort-by", "count", "--json", str(tmp_path / "t.json")]) == 0
    assert "p99.9" in capsys.readouterr().out
    names = json.loads((tmp_path / "t.json").read_text())["names"]
    assert (names[0]["name"], names[0]["count"]) == ("inner", 3 * 6000)
    assert main(["diff", one, two, "--max-growth", "1000"]) == 0
    assert "Mann-Whitney" in capsys.readouterr().out
    assert main(["report", one, "--tree"]) == 2
    flight_recorder.stop()
    (kept,) = recorder.iterdir()
    assert main(["report", str(kept)]) == 0
    assert "outer" in capsys.readouterr().out


def test_a_killed_process_leaves_its_file(tmp_path: Path, capsys: Any) -> None:
    from fastprof.cli.main import main

    code = "import fastprof\nwhile True:\n with fastprof.record_function('loop'): pass"
    environment = {**os.environ, "FASTPROF_FLIGHT_RECORDER": "max_bytes=8388608,aggregate=true"}
    folder = tmp_path / "f"
    environment["FASTPROF_PROCESS_FOLDER"] = str(folder)
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as process:
        until = time.monotonic() + 120
        while not (found := list(folder.glob("*.all.aggregates"))) and time.monotonic() < until:
            time.sleep(0.1)
        process.kill()
    assert main(["report", str(found[0])]) == 0
    assert "loop" in capsys.readouterr().out
