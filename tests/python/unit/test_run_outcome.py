# SPDX-License-Identifier: Apache-2.0
"""The end of fastprof run: where the recording goes, what is printed, and Ctrl-C while it is written."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof import errors
from fastprof.cli import outcome, run
from fastprof.cli.outcome import check_output, keep, patient_with_ctrl_c

Capsys = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def names(path: Path) -> list[str]:
    table = fastprof.load(path)
    return [table.name(row) for row in range(len(table))]


@pytest.mark.parametrize(
    ("path", "what"),
    [(".", "it is a folder"), ("absent/t.json", "the folder .*absent does not exist")],
)
def test_what_cannot_be_written_is_known_before_the_run(path: str, what: str) -> None:
    with pytest.raises(errors.IoError, match=f"cannot write {path}: {what}"):
        check_output(path)
    check_output("t.json")
    check_output("/dev/null")


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


def test_ctrl_c_is_left_alone_on_other_threads_and_without_a_handler_of_python() -> None:
    """A shell ignores SIGINT in what it starts in the background, so the test sets a handler of its own."""
    started_with = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        check_handlers_of_ctrl_c()
    finally:
        signal.signal(signal.SIGINT, started_with)


def check_handlers_of_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[Any] = []

    def work() -> None:
        with patient_with_ctrl_c("writing the trace"):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]

    def fail() -> None:
        with patient_with_ctrl_c("writing the trace"):
            assert signal.getsignal(signal.SIGINT) is not before
            raise KeyError("failed")

    with pytest.raises(KeyError):
        fail()
    assert signal.getsignal(signal.SIGINT) is before


def test_files_that_exist_are_never_replaced(tmp_path: Path) -> None:
    def name() -> str | None:
        return outcome._free_name(str(tmp_path), str(tmp_path / "t.json"), "chrome", "chrome")

    assert name() == str(tmp_path / "t.kept.json")
    (tmp_path / "t.kept.json").symlink_to("nowhere")
    assert name() == str(tmp_path / "t.kept1.json")
    (tmp_path / "t.kept1.json").touch()
    assert name() == str(tmp_path / "t.kept2.json")
    for number in range(2, 100):
        (tmp_path / f"t.kept{number}.json").touch()
    assert name() is None
    elsewhere = outcome._free_name(str(tmp_path), "/elsewhere/t.kept.json", "chrome", "chrome")
    assert elsewhere == str(tmp_path / "t.kept.kept1.json")
    assert outcome._free_name(str(tmp_path / "absent"), "/t.json", "chrome", "chrome") is None


# ---- what fastprof run prints ----------------------------------------------------------------------


def test_a_table_that_cannot_be_printed_is_a_failure(capsys: Capsys) -> None:
    class Broken:
        def __init__(self) -> None:
            self.missing = {"follow_children": "no folder"}
            self.event_table = fastprof.EventTable(
                {"start_ns": [1, 2], "end_ns": [2, 3], "site": [0, 0]},
                sites=[fastprof.Site("kept")],
                metadata={"processes": [{}, {}]},
            )

        def events(self) -> Any:
            raise MemoryError("no room")

    options = argparse.Namespace(
        no_table=False, calls=None, follow=False, output=None, html=None, open=False
    )
    assert run._report(Broken(), options, [], ".", None) == 1
    assert "cannot print the table: MemoryError('no room')" in capsys.readouterr().err
    options = argparse.Namespace(
        no_table=True, calls=None, follow=True, output=None, html=None, open=False
    )
    assert run._report(Broken(), options, [], ".", None) == 0
    said = capsys.readouterr().err
    assert said == "fastprof: 2 processes\nNot recorded: no folder\n"
