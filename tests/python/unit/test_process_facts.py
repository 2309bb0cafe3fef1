# SPDX-License-Identifier: Apache-2.0
"""process_facts(): what the reader of a backing file learns of a process; recover() of a folder of processes."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
from pathlib import Path

import pytest

import fastprof
from fastprof.profiler.recovery import process_facts


def test_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setattr(sys, "argv", ["train.py", "--fast", "\udc80"])
    assert process_facts() == [
        ("name", multiprocessing.current_process().name),
        ("rank", "3"),
        ("argv", "train.py --fast ?"),
    ]


def test_facts_that_do_not_exist_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "")
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.delitem(sys.modules, "multiprocessing.process")
    assert process_facts() == []
    monkeypatch.delenv("RANK")
    monkeypatch.delattr(sys, "argv")
    assert process_facts() == []


def test_a_folder_of_processes(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in (1, 2):
        path = tmp_path / "records"
        with fastprof.profile(backing_file=path, record_shapes=True):
            with fastprof.record_function(f"range {number}"):
                shutil.copy(path, folder / f"{number}-0.shard")
    (folder / "3-0.shard").touch()
    table = fastprof.recover(folder)
    assert sorted(table.name(row) for row in range(len(table))) == ["range 1", "range 2"]
    assert not table.has("flops")
    metadata = table.metadata
    assert metadata["format"] == "backing files"
    assert [process["pid"] for process in metadata["processes"]] == [os.getpid()] * 2
    first, second = (process["start_ns"] for process in metadata["processes"])
    assert table.t0_ns == first < second
    (problem,) = metadata["problems"]
    assert "3-0.shard cannot be read" in problem
    with pytest.raises(fastprof.errors.FormatError, match="contains no records of a process "):
        fastprof.recover(folder, max_bytes=1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(fastprof.errors.FormatError, match=r"process\. Use the folder"):
        fastprof.recover(tmp_path / "empty")
    (tmp_path / "empty" / "records-1").touch()
    with pytest.raises(fastprof.errors.FormatError, match=r"use `fastprof ranks .*empty`"):
        fastprof.recover(tmp_path / "empty")
