# SPDX-License-Identifier: Apache-2.0
"""%fastprof on a shell that stands for IPython's: what runs, what is shown, what is left in variables.

The real IPython: integration/test_notebook.py.
"""

from __future__ import annotations

import ast
import contextlib
import sys
import traceback
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import fastprof
from fastprof import errors
from fastprof.cli import notebook
from fastprof.cli.cell_code import CellCode, _parts


class UsageError(Exception):
    """IPython.core.error.UsageError."""


class Compiler:
    """As IPython's CachingCompiler: compiles with flags that can be extended for a while."""

    def __init__(self) -> None:
        self.flags = 0
        self.cached: dict[str, tuple[str, int, str]] = {}

    def cache(self, text: str, number: int, raw_code: str) -> str:
        name = f"<cell {number}>"
        self.cached[name] = (text, number, raw_code)
        return name

    @contextlib.contextmanager
    def extra_flags(self, flags: int) -> Any:
        self.flags |= flags
        yield
        self.flags &= ~flags

    def ast_parse(self, text: str, filename: str) -> Any:
        return compile(text, filename, "exec", self.flags | ast.PyCF_ONLY_AST)

    def __call__(self, part: Any, filename: str, mode: str) -> Any:
        return compile(part, filename, mode, self.flags)


class Shell:
    """The part of InteractiveShell that the magics use."""

    execution_count = 3
    autoawait = False

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.compile = Compiler()
        self.magics: dict[str, Any] = {}
        self.magics_manager = SimpleNamespace(magics={"line": {}, "cell": {}})
        self.pushed: list[tuple[list[str], bool]] = []

    def transform_cell(self, source: str) -> str:
        return source.replace("!magic", "shell_escape()")

    def transform_ast(self, tree: Any) -> Any:
        return tree

    def loop_runner(self, coroutine: Any) -> Any:
        with contextlib.suppress(StopIteration):
            coroutine.send(None)
            raise AssertionError("suspended")
        return "awaited"

    def push(self, names: dict[str, Any], interactive: bool = True) -> None:
        self.user_ns.update(names)
        self.pushed.append((list(names), interactive))

    def register_magic_function(self, function: Any, magic_kind: str, magic_name: str) -> None:
        assert (magic_kind, magic_name) == ("line_cell", "fastprof")
        for kind in self.magics_manager.magics.values():
            kind["fastprof"] = function


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What display() was given; IPython is a stand-in."""
    found: list[dict[str, str]] = []

    def display(data: dict[str, str], raw: bool) -> None:
        assert raw is True
        found.append(data)

    for name, members in (
        ("IPython", {}),
        ("IPython.core", {}),
        ("IPython.core.error", {"UsageError": UsageError}),
        ("IPython.display", {"display": display}),
    ):
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    return found


@pytest.fixture
def shell() -> Shell:
    made = Shell()
    notebook.load_ipython_extension(made)
    return made


def magic(shell: Shell, line: str, cell: str | None = None, local_ns: Any = None) -> None:
    shell.magics_manager.magics["cell"]["fastprof"](line, cell, local_ns)


def test_the_extension_comes_and_goes(shell: Shell) -> None:
    function = shell.magics_manager.magics["line"]["fastprof"]
    assert function.needs_local_scope is True
    assert "--all-threads" in function.__doc__ and "%%fastprof --calls" in function.__doc__
    notebook.unload_ipython_extension(shell)
    assert shell.magics_manager.magics == {"line": {}, "cell": {}}
    notebook.unload_ipython_extension(shell)  # twice is no error


def test_a_cell_runs_in_the_namespace_and_is_shown(
    shell: Shell, shown: list[dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    shell.user_ns["x"] = 20
    magic(shell, "--as prof", "y = x + 1\n2 * y\n")
    assert shell.user_ns["y"] == 21
    assert capsys.readouterr().out == "42\n"
    prof = shell.user_ns["prof"]
    assert prof is shell.user_ns["_fastprof"] and isinstance(prof, fastprof.profile)
    assert shell.pushed == [(["_fastprof"], False), (["prof"], True)]
    assert [event.name for event in prof.events()] == ["In [3]"]
    assert shell.compile.cached["<cell 3>"] == ("y = x + 1\n2 * y\n", 3, "y = x + 1\n2 * y\n")
    (data,) = shown
    hint = (
        "the cell entered no range: add --calls to record every call of a function, or ranges with"
    )
    assert data["text/plain"].startswith(hint) and data["text/html"].startswith(f"<p>{hint}")
    assert "In [3]" in data["text/plain"] and "<iframe" in data["text/html"]
    assert "height:600px" in data["text/html"].replace(" ", "")[-400:]


def test_a_line_runs_with_the_names_of_its_function(
    shell: Shell, shown: list[dict[str, str]]
) -> None:
    magic(shell, "--table   total(n + 1)", None, {"n": 4, "total": lambda value: value})
    assert [event.name for event in shell.user_ns["_fastprof"].events()] == ["total(n + 1)"]
    assert shell.pushed == [(["_fastprof"], False)]
    assert "<iframe" not in shown[0]["text/html"] and "<table" in shown[0]["text/html"]
    long = f"total({'n + ' * 100}0)"
    magic(shell, long, None, {"n": 4, "total": lambda value: value})
    (event,) = shell.user_ns["_fastprof"].events()
    assert event.name == long[:199] + "\u2026"


def test_ranges_and_calls(shell: Shell, shown: list[dict[str, str]]) -> None:
    shell.user_ns["fastprof"] = fastprof
    cell = "def f():\n    pass\nwith fastprof.record_function('mine'):\n    f()\n"
    magic(shell, "--calls --height 300 --row-limit 1", cell)
    text = shown[0]["text/plain"]
    assert "entered no range" not in text and "f" in text
    assert "height:300px" in shown[0]["text/html"].replace(" ", "")[-400:]
    magic(shell, "", cell)
    assert "entered no range" not in shown[1]["text/plain"]
    assert "mine" in shown[1]["text/plain"]
    magic(shell, "--calls --table", cell)
    whole = shown[2]["text/plain"]
    assert "(<module>)" in whole and "<cell 3>(1): " not in whole  # calls have a table of their own


def test_the_report_as_a_file(shell: Shell, shown: list[dict[str, str]], tmp_path: Path) -> None:
    page = tmp_path / "fit report.html"
    magic(shell, f'--table --html "{page}" 1 + 1')
    assert page.read_text().startswith("<!")
    assert f"wrote {page}; open it in a browser" in shown[0]["text/plain"]


def test_a_report_that_is_too_large(
    shell: Shell, shown: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastprof.report.inline.MAX_INLINE_BYTES", 100)
    monkeypatch.setattr(fastprof.profile, "_html_page", lambda self, **more: b"x" * (3 << 20))
    magic(shell, "1")
    text = "the report takes 3 MB, too much for a notebook: write it with --html FILE"
    assert text in shown[0]["text/plain"] and "<iframe" not in shown[0]["text/html"]


def test_errors_of_the_cell_are_shown_from_the_cell_on(
    shell: Shell, shown: list[dict[str, str]]
) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        magic(shell, "--table --as prof", "a = 1\n1 / 0\n")
    assert shell.user_ns["prof"].events()[0].name == "In [3]" and len(shown) == 1
    given: list[Any] = []
    shell.InteractiveTB = SimpleNamespace(  # type: ignore[attr-defined]
        structured_traceback=lambda *args, tb_offset: given.append((args, tb_offset)) or ["shown"]
    )
    assert caught.value._render_traceback_() == ["shown"]  # type: ignore[attr-defined]
    (((kind, error, trace), offset),) = given
    assert (kind, error, offset) == (ZeroDivisionError, caught.value, 0)
    assert traceback.extract_tb(trace)[0].filename == "<cell 3>"


def test_a_report_that_fails_does_not_hide_the_error_of_the_cell(
    shell: Shell, shown: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no screen")

    monkeypatch.setattr(notebook, "_show", fail)
    with pytest.warns(UserWarning, match="the report could not be shown.*no screen"), \
            pytest.raises(ZeroDivisionError):  # fmt: skip
        magic(shell, "1 / 0")
    with pytest.raises(RuntimeError, match="no screen"):
        magic(shell, "1 + 1")


@pytest.mark.parametrize(
    ("line", "cell", "message"),
    [
        ("", None, "no statement to profile. Write %fastprof STATEMENT"),
        ("more", "1", "unexpected text 'more' after the options of %%fastprof"),
        ("--as 1x", "1", "--as 1x: not a name of a variable"),
        ("--as class", "1", "--as class: not a name of a variable"),
        ("--height 99", "1", "invalid --height 99. Use at least 100 pixels"),
        ("--html report.txt", "1", "report.txt"),
        ("--nothing", "1", "unknown option --nothing"),
        ("--height x", "1", "invalid int value: 'x'"),
        ("--html", "1", "--html needs a value"),
        ("--row-limit", "1", "--row-limit needs a value"),
    ],
)
def test_wrong_lines(
    shell: Shell, shown: list[dict[str, str]], line: str, cell: str | None, message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with pytest.raises(UsageError) as caught:
        magic(shell, line, cell)
    assert message in str(caught.value) and not shown and shell.pushed == []
    assert capsys.readouterr().err == "" and not str(caught.value).startswith("%fastprof: error")
    magic(shell, "--table --height 100", "1")  # the least height


def test_help_runs_nothing(
    shell: Shell, shown: list[dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    magic(shell, "--help", "x = 1")
    assert "leave the profile in a variable" in capsys.readouterr().out
    assert "x" not in shell.user_ns and not shown


# ---- the code of a cell ----------------------------------------------------------------------------


def test_parts_of_a_cell() -> None:
    def modes(text: str) -> list[tuple[str, str]]:
        return [(ast.unparse(part), mode) for part, mode in _parts(ast.parse(text))]

    assert modes("a = 1") == [("a = 1", "exec")]
    assert modes("a") == [("a", "eval")]
    assert modes("a = 1\nb\nc") == [("a = 1\nb", "exec"), ("c", "eval")]
    assert modes("") == [("", "exec")]


class NoProfiler(contextlib.AbstractContextManager):  # type: ignore[type-arg]
    def __exit__(self, *_: object) -> None:
        pass


def test_await_at_the_top_of_a_cell(capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell()
    with pytest.raises(SyntaxError):
        CellCode(shell, "await f()")
    shell.autoawait = True

    async def f() -> int:
        return 5

    shell.user_ns["f"] = f
    CellCode(shell, "await f()").run_under(NoProfiler(), "label", None)
    assert capsys.readouterr().out == "'awaited'\n"
    CellCode(shell, "!magic if False else 7").run_under(NoProfiler(), "label", None)
    assert capsys.readouterr().out == "7\n"


def test_await_cannot_run_within_a_running_loop() -> None:
    import asyncio

    shell = Shell()
    shell.autoawait = True

    async def inside() -> None:
        with pytest.raises(errors.UnavailableError, match="await at the top of a cell cannot run"):
            CellCode(shell, "await f()")
        CellCode(shell, "1 + 1")  # nothing is awaited

    asyncio.run(inside())


def test_errors_from_elsewhere_keep_their_traceback() -> None:
    shell = Shell()

    class Closed(Exception):
        __slots__ = ()

        def __setattr__(self, name: str, value: object) -> None:
            if not name.startswith("__"):
                raise AttributeError(name)
            super().__setattr__(name, value)

    def fail() -> None:
        raise Closed

    shell.user_ns["fail"] = fail
    with pytest.raises(Closed) as caught:
        CellCode(shell, "fail()").run_under(NoProfiler(), "label", None)
    assert not hasattr(caught.value, "_render_traceback_")

    class Refusing(contextlib.AbstractContextManager):  # type: ignore[type-arg]
        def __enter__(self) -> None:
            raise errors.StateError("runs already")

        def __exit__(self, *_: object) -> None:
            pass

    with pytest.raises(errors.StateError) as refused:  # the cell has not begun
        CellCode(shell, "1").run_under(Refusing(), "label", None)
    assert not hasattr(refused.value, "_render_traceback_")
