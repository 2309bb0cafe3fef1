# SPDX-License-Identifier: Apache-2.0
"""`fastprof profile --kineto-config`: files of Kineto's on-demand keys, as dynolog sends them."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import python

import fastprof
from fastprof import errors, flight_recorder, record_function
from fastprof.cli.kineto_config import read_kineto_config

LATER_MS = (
    4_102_444_800_000  # the year 2100: ahead of now, and in the names of tests of all processes
)
BY_TIME = f"""
PROFILE_START_TIME={LATER_MS + 60000}
ACTIVITIES_LOG_FILE=/tmp/libkineto.json   # a comment
ACTIVITIES_DURATION_MSECS=250
PROFILE_REPORT_INPUT_SHAPES=true
PROFILE_PROFILE_MEMORY=no
"""


def read(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "on_demand.conf"
    path.write_text(text)
    return read_kineto_config(str(path))


# As libkineto/src/Config.cpp reads them.
@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("", {"seconds": 0.5}),
        ("ACTIVITIES_DURATION_SECS=3", {"seconds": 3}),
        ("ACTIVITIES_DURATION_MSECS=20\nACTIVITIES_DURATION_SECS=3", {"seconds": 3}),
        ("PROFILE_START_TIME=0\nACTIVITIES_DURATION_MSECS=20", {"seconds": 0.02}),
        (BY_TIME, {"seconds": 0.25, "start_unix_s": (LATER_MS + 60000) / 1000}),
        ("PROFILE_START_ITERATION=0\nACTIVITIES_ITERATIONS=2", {"steps": 2}),
        (
            f"PROFILE_START_TIME={LATER_MS}\nPROFILE_START_ITERATION=100\nACTIVITIES_ITERATIONS=2",
            {"steps": 2, "start_step": 100},
        ),
        (
            "PROFILE_START_ITERATION_ROUNDUP=1000\nACTIVITIES_ITERATIONS=3",
            {"steps": 3, "step_multiple": 1000},
        ),
    ],
)
def test_keys_are_read_as_kineto_reads_them(
    tmp_path: Path, text: str, request_: dict[str, Any]
) -> None:
    assert read(tmp_path, text).request == request_


def test_options_and_path(tmp_path: Path) -> None:
    found = read(tmp_path, BY_TIME + "PYTHON_STACK_TRACE=Y\nPROFILE_WITH_FLOPS=1")
    assert found.options == {"record_shapes": True, "with_stack": True, "with_flops": True}
    assert found.path_of(7) == "/tmp/libkineto_7.json"
    found = read(tmp_path, "ACTIVITIES_LOG_FILE=/tmp/a.pt.trace.json.gz")
    assert found.path_of(7) == "/tmp/a_7.pt.trace.json.gz"


def test_what_has_no_effect_is_named(tmp_path: Path) -> None:
    found = read(tmp_path, "ACTIVITIES_WARMUP_PERIOD_SECS=5\nPROFILE_WITH_STAK=1\n")
    assert "WARMUP" in found.left_out[0] and "did you mean PROFILE_WITH_STACK" in found.left_out[1]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("PROFILE_START_TIME", errors.FormatError),
        ("ACTIVITIES_DURATION_MSECS=-1", errors.FormatError),
        ("PROFILE_WITH_STACK=maybe", errors.FormatError),
        ("PROFILE_START_ITERATION=5", errors.ValueError),
        ("PROFILE_START_TIME=1000", errors.ValueError),
        ("ACTIVITIES_ENABLED=false", errors.ValueError),
    ],
)
def test_invalid_files_are_refused(tmp_path: Path, text: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"on_demand\.conf"):
        read(tmp_path, text)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process with a recorder, and a thread that makes steps."""
    with tempfile.TemporaryDirectory(prefix="fp") as folder:
        monkeypatch.setenv("FASTPROF_PROCESS_FOLDER", folder)
        flight_recorder.start(max_bytes=8 << 20, slow_step=None)
        end = threading.Event()

        def step() -> None:
            while not end.is_set():
                with record_function("work"):
                    time.sleep(0.03)
                flight_recorder.step()

        thread = threading.Thread(target=step)
        thread.start()
        yield
        end.set()
        thread.join()
        flight_recorder.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="flight recorders are of Linux")
@pytest.mark.parametrize(
    "text",
    [
        "PROFILE_START_ITERATION=0\nPROFILE_START_ITERATION_ROUNDUP=50\nACTIVITIES_ITERATIONS=3",
        "PROFILE_START_TIME={time}\nACTIVITIES_DURATION_MSECS=300",
    ],
)
def test_a_running_process_is_profiled(tmp_path: Path, steps: None, text: str) -> None:
    start_s = int(time.time()) + 3
    config = tmp_path / "on_demand.conf"
    where = f"\nACTIVITIES_LOG_FILE={tmp_path}/out.json\nFUTURE_KEY=1\n"
    config.write_text(text.format(time=int(start_s * 1000)) + where)
    words = ("profile", os.getpid(), "--kineto-config", config)
    done = python("-m", "fastprof", *words, check=True)
    assert "unknown key FUTURE_KEY" in done.stderr
    table = fastprof.load(tmp_path / f"out_{os.getpid()}.json")
    names = [str(table.name(row)) for row in range(len(table))]
    if "ROUNDUP" in text:
        assert names.count("work") >= 2
        numbers = [int(name[13:]) for name in names if re.match(r"ProfilerStep#\d", name)]
        assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
        assert (numbers[0] - 1) % 50 == 0
    else:
        assert table.t0_ns / 1e9 >= start_s and table.t1_ns - table.t0_ns >= 300e6
