# SPDX-License-Identifier: Apache-2.0
"""Program: __main__, sys.argv and sys.path are as under python; threads and exceptions at the program's end."""

from __future__ import annotations

import importlib.machinery
import io
import os
import py_compile
import sys
import threading
import traceback
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from cli_traces import own_process_state  # noqa: F401 (serves every test)

from fastprof import errors
from fastprof.cli.program_call import ProgramCall
from fastprof.cli.script import Program, end_threads, leave_as


def facts_of(kind: str, target: str, *args: str) -> dict[str, Any]:
    """Run a program and return the globals of its __main__."""
    rest = sys.path[1:]
    program = Program(ProgramCall(kind, target, args))
    program.run()
    assert sys.modules["__main__"] is program.main and sys.path[1:] == rest
    names = program.main.__dict__
    assert names["__name__"] == "__main__" and names["__annotations__"] == {}
    assert names["__builtins__"] is sys.modules["builtins"]
    return names


CODE = "import sys; argv, path = sys.argv[:], sys.path[0]"


def test_a_script(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/s.py").write_text(CODE)
    (tmp_path / "link.py").symlink_to("folder/s.py")
    names = facts_of("script", "link.py", "a", "b")
    assert names["argv"] == ["link.py", "a", "b"]
    assert names["path"] == str(tmp_path / "folder")  # of the file, not of the link
    assert names["__file__"] == str(tmp_path / "link.py") and names["__cached__"] is None
    assert names["__spec__"] is None and names["__package__"] is None
    loader = names["__loader__"]
    assert type(loader) is importlib.machinery.SourceFileLoader
    assert (loader.name, loader.path) == ("__main__", str(tmp_path / "link.py"))


def test_compiled_scripts(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(CODE)
    py_compile.compile("s.py", "s.pyc")
    (tmp_path / "s.py").unlink()
    assert facts_of("script", "s.pyc")["argv"] == ["s.pyc"]


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_a_folder_or_zip_file_with_a_main(form: str, tmp_path: Path) -> None:
    target = tmp_path / "app"
    if form == "folder":
        target.mkdir()
        (target / "__main__.py").write_text(CODE)
    else:
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr("__main__.py", CODE)
    names = facts_of("script", "app", "x")
    assert names["argv"] == ["app", "x"] and names["path"] == str(target)
    assert names["__file__"] == str(target / "__main__.py")
    assert names["__spec__"].name == "__main__" and names["__package__"] == ""
    assert names["__loader__"] is names["__spec__"].loader
    assert "__cached__" in names


@pytest.mark.parametrize("form", ["folder", "zip file"])
def test_without_a_main_it_is_no_program(form: str, tmp_path: Path) -> None:
    if form == "folder":
        (tmp_path / "app").mkdir()
    else:
        zipfile.ZipFile(tmp_path / "app", "w").close()
    main = sys.modules["__main__"]
    with pytest.raises(errors.IoError, match=f"cannot run app: the {form} contains no __main__.py"):
        Program(ProgramCall("script", "app", ()))
    assert sys.modules["__main__"] is main


def test_a_module(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").touch()
    (tmp_path / "package/tool.py").write_text(CODE)
    try:
        names = facts_of("module", "package.tool", "x")
    finally:
        sys.modules.pop("package", None)
    assert names["argv"] == [str(tmp_path / "package/tool.py"), "x"]
    assert names["path"] == str(tmp_path)
    assert names["__spec__"].name == "package.tool" and names["__package__"] == "package"
    with pytest.raises(errors.IoError, match="cannot run the module absent"):
        Program(ProgramCall("module", "absent", ())).run()


def test_code_and_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(CODE.encode())

    monkeypatch.setattr(sys, "stdin", Input)
    for names in (facts_of("code", CODE, "x"), facts_of("stdin", "-", "x")):
        assert names["path"] == "" and names["argv"][1:] == ["x"]
        assert names["__loader__"] is importlib.machinery.BuiltinImporter
        assert "__file__" not in names and names["__spec__"] is None
    assert names["argv"][0] == "-"
    assert Program(ProgramCall("code", CODE, ())).code.co_filename == "<string>"
    assert sys.argv == ["-c"]
    assert Program(ProgramCall("stdin", "-", ())).code.co_filename == "<stdin>"


def test_futures_of_fastprof_are_not_the_programs() -> None:
    names = facts_of("code", "def f(a: int): pass")
    assert names["f"].__annotations__ == {"a": int}


def test_files_that_cannot_be_read() -> None:
    with pytest.raises(errors.IoError, match=r"cannot run .*absent.py: No such file") as raised:
        Program(ProgramCall("script", "absent.py", ()))
    assert raised.value.errno == 2


def test_threads_of_the_program_are_waited_for() -> None:
    ended = []
    go = threading.Event()

    def inner() -> None:
        go.wait(60)
        ended.append("inner")

    def outer() -> None:
        threading.Thread(target=inner).start()
        ended.append("outer")

    daemon = threading.Thread(target=lambda: go.wait(60), daemon=True)
    daemon.start()
    threading.Thread(target=outer).start()
    threading.Timer(0.05, go.set).start()
    end_threads()
    assert sorted(ended) == ["inner", "outer"]
    assert [t for t in threading.enumerate() if not t.daemon] == [threading.main_thread()]
    go.set()
    daemon.join()


def test_tracebacks_begin_with_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[Any] = []

    def show(kind: Any, value: Any, trace: TracebackType | None) -> None:
        shown.append((kind, value, [f.name for f in traceback.extract_tb(trace)]))
        assert value.__traceback__ is trace

    sys.excepthook = show
    program = Program(ProgramCall("code", "def f(): 1 / 0\nf()", ()))

    def run() -> None:
        try:
            program.run()
        except ZeroDivisionError as error:
            leave_as(error)

    with pytest.raises(ZeroDivisionError) as raised:
        run()
    assert sys.excepthook is not show
    sys.excepthook(ZeroDivisionError, raised.value, raised.value.__traceback__)
    assert shown == [(ZeroDivisionError, raised.value, ["<module>", "f"])]
    # A program that does not compile has no frame of its own.
    with pytest.raises(SyntaxError) as not_compiled:
        Program(ProgramCall("code", "def", ()))
    sys.excepthook(SyntaxError, not_compiled.value, not_compiled.value.__traceback__)
    assert shown[1][2] == []


def test_the_first_path_stays_where_python_was_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Flags:
        safe_path = True

    first = sys.path[0]
    monkeypatch.setattr(sys, "flags", Flags)
    Program(ProgramCall("code", "", ()))
    assert sys.path[0] == first
    monkeypatch.undo()
    Program(ProgramCall("code", "", ()))
    assert sys.path[0] == "" or os.environ.get("PYTHONSAFEPATH")
