# SPDX-License-Identifier: Apache-2.0
"""Ranges emitted to NVTX and ITT tools, and received from them, with both ends ours: no package of others is needed.

tests/python/integration/test_nvtx.py and test_itt.py have genuine programs, and collectors on genuine headers.
"""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from annotation_doubles import injected, run_python
from processes import python

import fastprof
from fastprof import _paths, errors
from fastprof.record import injection

_EMITTED = """
import json
import fastprof
emitter = fastprof.{emitter}({arguments})
with fastprof.profile() as prof:
    with fastprof.record_function("before"):
        pass
    with emitter:
        with fastprof.record_function("outer"):
            with fastprof.record_function("inner"):
                pass
    with fastprof.record_function("after"):
        pass
table = prof.event_table
parent = table.column("parent")
print(json.dumps([[table.name(r), table.name(int(parent[r])) if parent[r] >= 0 else None]
                  for r in range(len(table))]))
"""


@pytest.fixture
def other_tool(tmp_path: Path) -> dict[str, str]:
    """The environment of a tool that records, but is not fastprof: emitters refuse to emit to fastprof itself."""
    copy = shutil.copy(_paths.injection_library(), tmp_path / "other_tool.so")
    return injected(**{injection.NVTX_VARIABLE: str(copy), injection.ITT_VARIABLE: str(copy)})


def test_emitted_nvtx_ranges_are_received(other_tool: dict[str, str]) -> None:
    rows = run_python(_EMITTED.format(emitter="emit_nvtx", arguments=""), other_tool)
    names = [name for name, _ in rows]
    texts = [name for name in names if ", op_id = " in name]
    assert [text.split(",")[0] for text in texts] == ["outer", "inner"]
    assert all(name in names for name in ("before", "outer", "inner", "after"))
    # Each emitted range lies around or in its own: the tool's part of it is recorded as a range as well.
    parents = dict(rows)
    assert parents["inner"] in (texts[1], "outer", texts[0])
    assert len(names) == 6


@pytest.mark.parametrize("emitter", ["emit_nvtx", "emit_itt"])
def test_nothing_is_emitted_to_fastprof_itself(emitter: str) -> None:
    """Neither twice in a profile nor in a loop: in nested profiles, on threads, in forked children."""
    names, warned = run_python(
        f"""
import json, os, threading, warnings
import fastprof
def work():
    with fastprof.record_function("ours"): pass
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with fastprof.profile() as outer, fastprof.{emitter}():
        with fastprof.profile():
            work()
        thread = threading.Thread(target=work); thread.start(); thread.join()
        child = os.fork()
        if child == 0:
            work()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
print(json.dumps([[event.name for event in outer.events()], [str(one.message) for one in caught]]))
""",
        injected(),
    )
    assert names == ["ours", "ours"]
    warned = [text for text in warned if "use of fork()" not in text]  # CPython >= 3.12
    assert len(warned) == 1 and "names fastprof itself" in warned[0]


def test_emitted_itt_ranges_are_received(other_tool: dict[str, str]) -> None:
    rows = run_python(
        _EMITTED.format(emitter="emit_itt", arguments="record_shapes=True"), other_tool
    )
    assert sorted(name for name, _ in rows) == ["after", "before", "inner", "inner", "outer", "outer"]  # fmt: skip


@pytest.mark.parametrize("emitter", [fastprof.emit_nvtx, fastprof.emit_itt])
def test_without_a_tool_an_emitter_warns_and_goes_on(
    emitter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(injection.NVTX_VARIABLE, raising=False)
    monkeypatch.delenv(injection.ITT_VARIABLE, raising=False)
    with emitter(enabled=False):
        pass
    with pytest.warns(UserWarning, match=r"emits nothing: no \w+ \w+ is attached"), emitter():
        pass


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot load the NVTX tool"),
        ("libm.so.6", "has no function InitializeInjectionNvtx2"),
    ],
)
def test_a_wrong_tool_is_named(
    content: str | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(injection.NVTX_VARIABLE, content or "/nowhere/tool.so")
    with pytest.warns(UserWarning, match=reason), fastprof.emit_nvtx():
        pass


def test_a_refused_attachment_and_nesting_raise(other_tool: dict[str, str]) -> None:
    said = run_python(
        """
import json
import fastprof
said = []
emitter = fastprof.emit_nvtx()
with emitter:
    for other in (emitter, fastprof.emit_nvtx()):
        try:
            with other:
                said.append("entered")
        except fastprof.errors.StateError as error:
            said.append(str(error))
with fastprof.emit_nvtx(), fastprof.emit_itt():
    said.append("both tools")
with fastprof.emit_nvtx():
    said.append("again")
print(json.dumps(said))
""",
        other_tool,
    )
    assert "not reentrant" in said[0] and "emitted already" in said[1]
    assert said[2:] == ["both tools", "again"]


def test_calls_without_a_collector_have_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(injection.ITT_VARIABLE, raising=False)
    with fastprof.itt.range("x"), warnings.catch_warnings():
        warnings.simplefilter("error")
        fastprof.itt.mark("y")


def test_a_forked_child_goes_on_emitting_and_receiving(other_tool: dict[str, str]) -> None:
    names = run_python(
        """
import json, os
import fastprof
from fastprof import itt
read, write = os.pipe()
itt.range_push("pushed by the parent")
with fastprof.emit_nvtx():
    pid = os.fork()
    if pid == 0:
        with fastprof.profile() as prof:
            with fastprof.record_function("in the child"):
                pass
            itt.range_pop()
            itt.range_push("itt in the child"); itt.range_pop()
        table = prof.event_table
        os.write(write, json.dumps([table.name(r) for r in range(len(table))]).encode())
        os._exit(0)
os.waitpid(pid, 0)
print(os.read(read, 65536).decode())
""",
        other_tool,
    )
    assert [name.split(",")[0] for name in names] == [
        "in the child",
        "in the child",
        "itt in the child",
    ]


def test_receiving_respects_another_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "nsight.so"
    other.touch()
    for variable, receive in (
        (injection.NVTX_VARIABLE, fastprof.receive_nvtx),
        (injection.ITT_VARIABLE, fastprof.receive_itt),
    ):
        monkeypatch.setenv(variable, str(other))
        with pytest.raises(errors.StateError, match=r"names another tool, .*nsight\.so"):
            receive()
        assert os.environ[variable] == str(other)
        receive(replace=True)
        assert os.environ[variable] == str(_paths.injection_library())
        receive()  # its own library is no other tool
        monkeypatch.delenv(variable)
        receive()
        assert injection.is_injection_library(os.environ[variable])


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise FileNotFoundError("cannot find libfastprof_injection.so. Reinstall fastprof.")

    monkeypatch.setattr(_paths, "injection_library", missing)
    monkeypatch.delenv(injection.NVTX_VARIABLE, raising=False)
    with pytest.raises(errors.UnavailableError, match="Reinstall"):
        fastprof.receive_nvtx()


def test_run_receives_in_the_program(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from fastprof import itt\nwith itt.range('itt range'): pass\n"
        "import os; print('NVTX_INJECTION64_PATH' in os.environ)\n"
    )
    done = python("-m", "fastprof", "run", "--itt", "-o", tmp_path / "t.json", script, check=True)
    assert "itt range" in done.stderr and done.stdout == "False\n"
    refused = python(
        "-m", "fastprof", "run", "--nvtx", script, **{injection.NVTX_VARIABLE: str(script)}
    )
    assert refused.returncode == 2 and "names another tool" in refused.stderr
    assert refused.stdout == ""  # the program has not run


def test_doctor_says_who_receives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from fastprof.cli.checks import system_checks

    def found(topic: str) -> tuple[bool | None, str]:
        return next((f.ok, f.text) for f in system_checks() if f.topic == topic)

    monkeypatch.delenv(injection.NVTX_VARIABLE, raising=False)
    assert found("NVTX")[0] and "fastprof run --nvtx" in found("NVTX")[1]
    monkeypatch.setenv(injection.ITT_VARIABLE, str(_paths.injection_library()))
    assert found("ITT")[0]
    monkeypatch.setenv(injection.NVTX_VARIABLE, str(tmp_path))
    assert found("NVTX")[0] is False and "another tool" in found("NVTX")[1]
    (cupti := tmp_path / "libcupti.so.13").touch()
    monkeypatch.setenv(injection.NVTX_VARIABLE, str(cupti))
    assert found("NVTX")[0] and "read its markers" in found("NVTX")[1]
    monkeypatch.setenv(injection.NVTX_VARIABLE, "/nowhere/x.so")
    assert "does not exist" in found("NVTX")[1]
