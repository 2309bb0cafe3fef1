# SPDX-License-Identifier: Apache-2.0
"""recover(): reads the records of a killed Python process from its profile's backing file; damaged files."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from processes import python

import fastprof
from fastprof import errors
from fastprof.cli.main import main
from fastprof.exporters.trace_writers import write_chrome_trace
from fastprof.flight_recorder.dumps import read_dump, write_dump
from fastprof.formats.backing_file import BACKING_MAGIC
from fastprof.model.table import EventFlag, EventTable

PROGRAM = """
import os, signal, sys, threading, fastprof
options = eval(sys.argv[2]) if len(sys.argv) > 2 else {}
profile = fastprof.profile(backing_file=sys.argv[1], **options)
profile.start()

@fastprof.record_function("decorated")
def work(i):
    with fastprof.record_function(f"name {i % 5}"):
        with fastprof.record_function("with text", f"text {i}"):
            fastprof.mark("mark")
    fastprof.counter("counter", i)

for i in range(ROUNDS):
    work(i)
thread = threading.Thread(target=lambda: [work(i) for i in range(100)])
thread.start()
thread.join()
fastprof.record_function("open").__enter__()
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path, rounds: int = 1000, options: str = "", **environment: str) -> None:
    """Run the program, which kills itself."""
    command = [sys.executable, "-c", PROGRAM.replace("ROUNDS", str(rounds)), str(path)]
    result = subprocess.run(
        command + ([options] if options else []), env={**os.environ, **environment}, timeout=60
    )
    assert result.returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("killed") / "records"
    killed(path, RANK="3")
    return path


def recovered(table: EventTable) -> dict[str, Any]:
    facts: dict[str, Any] = table.metadata["recovered"]
    return facts


def test_everything_that_was_recorded_is_there(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600
    table = fastprof.recover(file)
    names = [table.sites.names[site] for site in table.column("site").tolist()]
    counts = {name: names.count(name) for name in set(names)}
    assert counts == {
        "decorated": 1100,
        **{f"name {i}": 220 for i in range(5)},
        "with text": 1100,
        "mark": 1100,
        "counter": 1100,
        "open": 1,
    }
    facts = recovered(table)
    missing = {name: facts[name] for name in ("unread_chunks", "unknown_texts", "damaged")}
    assert missing == dict.fromkeys(missing, 0)
    assert (facts["open_ranges"], facts["ended"]) == (1, False)
    assert facts["metadata"]["rank"] == "3" and facts["metadata"]["argv"].startswith("-c")
    assert facts["parent_pid"] == os.getpid() != table.pid
    events = table.events()
    texts = [event.concrete_inputs for event in events if event.name == "with text"]
    expected = [*range(1000), *range(100)]
    assert texts == [[f"text {i}"] for i in expected]
    finished = (table.column("flags") & int(EventFlag.FINISHED)) != 0
    assert [names[row] for row in (~finished).nonzero()[0]] == ["open"]
    assert table.end_ns.max() <= table.t1_ns


def test_a_profile_that_stops_removes_its_file(tmp_path: Path) -> None:
    path = tmp_path / "records"
    with fastprof.profile(backing_file=path) as profile:
        with fastprof.record_function("range"):
            pass
        running = fastprof.recover(path)
        assert len(running) == 1 and recovered(running)["ended"] is False
    assert not path.exists()
    assert len(profile.event_table) == 1 and profile.missing == {}


def test_options(tmp_path: Path) -> None:
    with pytest.raises(errors.ValueError, match="cannot be used with"):
        fastprof.profile(backing_file=tmp_path / "a", overflow="spill")
    with pytest.raises(errors.IoError, match="cannot make the backing file"):
        fastprof.profile(backing_file="/no/such/folder/file").start()
    with fastprof.profile(backing_file=tmp_path / "a"):
        with pytest.raises(errors.StateError, match="another session's backing file"):
            fastprof.profile(backing_file=tmp_path / "b").start()
    assert list(tmp_path.iterdir()) == []


def test_the_limit_of_the_size(file: Path) -> None:
    size = file.stat().st_size
    assert len(fastprof.recover(file, max_bytes=2 * size)) > 0
    with pytest.raises(errors.FormatError):
        fastprof.recover(file, max_bytes=size // 2)


def test_a_dump_of_infinite_seconds_is_damaged(file: Path, tmp_path: Path) -> None:
    write_dump(str(file), str(tmp_path / "o.flight"), "test", seconds=float("inf"))
    with pytest.raises(errors.FormatError, match="'seconds' is no number; copy it again"):
        read_dump(tmp_path / "o.flight")


def test_a_range_that_began_before_the_seconds_of_a_dump_begins_with_them(tmp_path: Path) -> None:
    records, copy = str(tmp_path / "records"), str(tmp_path / "o.flight")
    with fastprof.profile(backing_file=records), fastprof.record_function("outer"):
        with fastprof.record_function("before"):
            pass
        time.sleep(0.2)
        with fastprof.record_function("within"):
            pass
        write_dump(records, copy, "test")
    table = read_dump(copy, seconds=0.1)
    assert [table.name(row) for row in range(len(table))] == ["outer", "within"]
    assert table.start_ns[0] == table.t0_ns == table.t1_ns - 100_000_000
    assert fastprof.EventList.from_table(table)[0].self_cpu_time_total <= 100_000


def test_no_room_is_reported(tmp_path: Path) -> None:
    """A limit on file sizes simulates a full disk."""
    program = """
    import resource, sys, warnings, fastprof
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))
    profile = fastprof.profile(backing_file=sys.argv[1])
    with profile:
        for _ in range(100000):
            with fastprof.record_function("range"):
                pass
    assert len(profile.event_table) == 100000
    print(profile.missing["backing_file"])
    """
    result = python("-W", "ignore", "-c", textwrap.dedent(program), tmp_path / "a")
    assert "slabs of 2 MB" in result.stdout, result.stderr
    assert not (tmp_path / "a").exists()


def test_the_command(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, own, csv = (str(tmp_path / name) for name in ("t.json", "t.fastprof", "t.csv"))
    assert main(["recover", "-o", trace, "-o", own, "--csv", csv, str(file)]) == 0
    output = capsys.readouterr().out
    assert "1 range open" in output and "rank: 3" in output and "decorated" in output
    assert "missing" not in output
    assert [line for line in output.splitlines() if line.startswith("wrote ")] == [
        f"wrote {trace}",
        f"wrote {own}",
    ]
    slices = [e for e in json.loads(Path(trace).read_text())["traceEvents"] if e["ph"] == "X"]
    assert len(slices) == 3301
    assert len(fastprof.load(own)) == len(fastprof.recover(file))
    assert "decorated" in Path(csv).read_text()
    # Errors: another format, no file, an option's value.
    assert main(["recover", own]) == 2
    assert main(["recover", str(tmp_path / "none")]) == 2
    assert main(["recover", "--session", "77", str(file)]) == 2
    # Commands that read traces read it as well.
    capsys.readouterr()
    assert main(["report", str(file)]) == 0
    assert "decorated" in capsys.readouterr().out


def test_the_command_says_how_much_is_missing_of_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = {
        "unread_chunks": 1, "unknown_texts": 2, "python_stacks": 3, "damaged": 4,
        "names_lost": 5, "fallback_slabs": 6, "threads_outside": 0,
    }  # fmt: skip
    facts = {"session": 1, "ended": True, "open_ranges": 0, "metadata": {}} | counts
    empty: dict[str, Any] = {"start_ns": [], "end_ns": [], "site": []}
    table = EventTable(empty, sites=[], metadata={"recovered": facts})
    monkeypatch.setattr(fastprof, "recover", lambda *args, **more: table)
    (tmp_path / "records").write_bytes(b"x")
    assert main(["recover", str(tmp_path / "records")]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "missing: " in line]
    assert [line.partition("missing: ")[2] for line in said] == [
        "1 blocks of records that could not be read to their end",
        "2 texts of arguments",
        "3 Python stacks of ranges, whose texts are not in the file",
        "4 damaged headers and names",
        "5 names for which the file had no room",
        "6 blocks of 2 MB for which the file had no room",
    ]


def test_the_magic_is_the_native_one(file: Path) -> None:
    with open(file, "rb") as opened:
        assert opened.read(16) == BACKING_MAGIC


def use(table: EventTable) -> None:
    """Read everything that a user can read of a table."""
    events = table.events()
    str(events.key_averages().table(row_limit=3))
    for event in events[:50]:
        str((event.name, event.stack, event.input_shapes, event.kwinputs, event.concrete_inputs))


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files(tmp_path: Path, seed: int) -> None:
    """Truncated files and flipped bits give a table or FormatError, and no other error; of damaged records, a table."""
    source = tmp_path / "source"
    killed(
        source,
        60,
        "dict(with_stack=True, python_calls=False, record_shapes=True, profile_memory=True)",
    )
    good = source.read_bytes()
    # Damage only what was written: the rest of the 2 MB segments is zero. The first segment is the header.
    used = [at for at in range(0, len(good), 64) if any(good[at : at + 64])]
    records = [at for at in used if at >= 2 << 20]
    random.seed(seed)
    path = tmp_path / "damaged"
    for number in range(60):
        where = {0: "magic number", 1: "records"}.get(number % 10, "anywhere")
        bytes_ = bytearray(good)
        for _ in range(random.choice((1, 1, 3, 30, 300))):
            at = random.choice(records if where == "records" else used) + random.randrange(64)
            bytes_[at] = random.choice(
                (0, 255, random.randrange(256), bytes_[at] ^ 1 << random.randrange(8))
            )
        if where == "magic number":
            at = random.randrange(len(BACKING_MAGIC))
            bytes_[at] = BACKING_MAGIC[at] ^ 1 << random.randrange(8)
        if where != "records" and random.random() < 0.3:
            del bytes_[random.randrange(len(bytes_)) :]
        path.write_bytes(bytes_)
        try:
            table = fastprof.recover(path)
        except errors.FormatError:
            assert where != "records"
            continue
        assert where != "magic number"
        with contextlib.suppress(errors.FormatError):
            use(table)
        if random.random() < 0.2:
            write_chrome_trace(table, tmp_path / "trace.json")
            json.loads((tmp_path / "trace.json").read_text())
