# SPDX-License-Identifier: Apache-2.0
"""The end of fastprof run: where the recording goes, what is printed, and Ctrl-C while it is written."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from waiting_threads import run_threads

import fastprof
from fastprof.cli.outcome import keep, patient_with_ctrl_c

Capsys = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def names(path: Path) -> list[str]:
    table = fastprof.load(path)
    return [table.name(row) for row in range(len(table))]


class _Failing:
    """A profile whose first `left` exports fail."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.tried: list[str] = []
        self.event_table = fastprof.EventTable(
            {"start_ns": [1], "end_ns": [2], "site": [0]}, sites=[fastprof.Site("kept")]
        )

    def export(self, path: str, format: str) -> None:
        self.tried.append(path)
        if self.left > 0:
            self.left -= 1
            raise OSError("no space left")
        Path(path).write_text("{}")


def test_a_trace_that_cannot_be_written_goes_elsewhere(tmp_path: Path, capsys: Capsys) -> None:
    wanted = str(tmp_path / "t.trace.json")
    profile = _Failing(0)
    assert keep(profile, wanted, "chrome", str(tmp_path)) == (wanted, "chrome", 0)
    assert capsys.readouterr().err == ""

    profile = _Failing(1)
    found = keep(profile, wanted, "chrome", str(tmp_path))
    assert found == (str(tmp_path / "t.trace.kept.json"), "chrome", 1)
    assert capsys.readouterr().err == "fastprof: error: OSError: no space left\n"

    (tmp_path / "t.trace.kept1.json").symlink_to("nowhere")  # what exists is never replaced
    assert keep(_Failing(1), wanted, "chrome", str(tmp_path))[0].endswith("/t.trace.kept2.json")
    capsys.readouterr()

    profile = _Failing(2)  # Chrome's format fails twice: fastprof's own is smaller
    path, kind, failed = keep(profile, wanted, "chrome", str(tmp_path))
    assert (path, kind, failed) == (str(tmp_path / "t.trace.kept.fastprof"), "native", 1)
    assert names(Path(path)) == ["kept"]


def test_a_second_ctrl_c_is_an_interrupt(capsys: Capsys) -> None:
    def handler(number: int, frame: Any) -> None:
        raise AssertionError("the handler from before")

    before = signal.signal(signal.SIGINT, handler)
    try:
        with patient_with_ctrl_c("writing the trace"):
            signal.raise_signal(signal.SIGINT)
            said = capsys.readouterr().err
            assert said == "fastprof: writing the trace; press Ctrl-C again to cancel\n"
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a shell's background job
        with patient_with_ctrl_c("writing the trace"):
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_is_left_alone_on_other_threads() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[Any] = []

    def work() -> None:
        with patient_with_ctrl_c("writing the trace"):
            seen.append(signal.getsignal(signal.SIGINT))

    run_threads(threading.Thread(target=work))
    assert seen == [before]


# ---- what fastprof run prints ----------------------------------------------------------------------
