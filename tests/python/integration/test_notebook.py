# SPDX-License-Identifier: Apache-2.0
"""%fastprof and %%fastprof in an IPython shell, and in a notebook that is executed by a kernel."""

from __future__ import annotations

import html
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastprof

pytest.importorskip("IPython")
pytest.importorskip("nbclient")

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

pytestmark = [pytest.mark.integrations, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    hook = sys.displayhook
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance()
    made.history_manager.enabled = False
    assert made.run_cell("%load_ext fastprof").success
    yield made
    made.run_cell("%unload_ext fastprof")
    InteractiveShell.clear_instance()
    sys.displayhook = hook


def run(shell: Any, cell: str) -> tuple[Any, Any]:
    """Return (result, captured outputs)."""
    with capture_output() as captured:
        result = shell.run_cell(cell)
    return result, captured


WORK = """
from fastprof import record_function
total = 0
for i in range(3):
    with record_function("work"):
        total += sum(range(1000))
total
"""


def test_a_cell_runs_in_the_users_namespace_and_shows_the_report(shell: Any) -> None:
    result, captured = run(shell, f"%%fastprof --as prof\n{WORK}")
    assert result.success and shell.user_ns["total"] == 3 * sum(range(1000))
    assert str(shell.user_ns["total"]) in captured.stdout  # the value of the last line
    (output,) = captured.outputs
    assert output.data["text/html"].count("<iframe") == 1
    assert "work" in output.data["text/plain"]
    prof = shell.user_ns["prof"]
    assert prof is shell.user_ns["_fastprof"]
    averages = {average.key: average.count for average in prof.key_averages()}
    assert averages["work"] == 3


def test_the_averages_have_the_cells_number_and_calls(shell: Any) -> None:
    shell.run_cell("def twice(n):\n    return 2 * n\n", store_history=True)
    number = shell.execution_count
    cell = "%%fastprof --calls --as prof\nfor i in range(3):\n    twice(i)\n"
    with capture_output():
        shell.run_cell(cell, store_history=True)
    averages = {average.key: average.count for average in shell.user_ns["prof"].key_averages()}
    assert averages[f"In [{number}]"] == 1
    assert [n for name, n in averages.items() if name.endswith(": twice")] == [3]
    shell.user_ns["prof"] = fastprof.profile()
    with shell.user_ns["prof"]:
        pass
    _, captured = run(shell, "prof")
    assert captured.stdout.count("\n") <= 2 and "nothing was recorded in" in captured.stdout


@pytest.mark.parametrize(
    "shown", ["prof", "prof.events()", "prof.key_averages()", "prof.event_table"]
)
def test_results_are_a_text_of_at_most_30_rows(shell: Any, shown: str) -> None:
    loop = "for i in range(50):\n        with fastprof.record_function(f'work {i}'): pass"
    run(shell, f"import fastprof\nwith fastprof.profile() as prof:\n    {loop}")
    _, captured = run(shell, shown)
    assert captured.stdout.count("work ") == 30 and "20 more rows: print(" in captured.stdout


def test_the_display_of_a_value_is_not_profiled(shell: Any) -> None:
    run(shell, "%%fastprof --calls\nx = sorted([3, 1])\nx")
    files = {f.file for f in shell.user_ns["_fastprof"].python_calls().functions}
    machinery = ("displayhook", "traitlets", "interactiveshell")
    assert not any(word in file for file in files for word in machinery)


def test_a_line(shell: Any) -> None:
    shell.user_ns["f"] = lambda *args, **more: (args, more)
    result, captured = run(shell, "%fastprof --as=p f('-- a', \"b  c\", d=1)")
    assert result.success and "(('-- a', 'b  c'), {'d': 1})" in captured.stdout
    assert shell.user_ns["p"].events()[0].name == "f('-- a', \"b  c\", d=1)"
    result, captured = run(shell, "def g(y):\n    %fastprof y + 1\ng(41)")
    assert result.success and "42" in captured.stdout


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%fastprof --clals f()", "did you mean --calls?"),
        ("%fastprof", "no statement to profile"),
        ("%fastprof --html", "needs a value"),
        ("%fastprof --html x.txt 1", "path that ends in .html"),
        ("%fastprof --as a.b 1", "not a name of a variable"),
        ("%fastprof --as for 1", "not a name of a variable"),
        ("%fastprof --height 1 1", "at least 100"),
        ("%fastprof --sort-by cow 1", "cannot sort by"),
        ("%fastprof --max-records-mb -1 1", "invalid --max-records-mb"),
        ("%fastprof --min-duration 5 1", "Add --calls"),
        ("%%fastprof --calls 1 + 1\n2", "unexpected text '1 + 1'"),
    ],
)
def test_a_wrong_line_runs_nothing(shell: Any, cell: str, said: str) -> None:
    shell.user_ns["f"] = lambda: pytest.fail("ran")
    result, captured = run(shell, cell)
    assert type(result.error_in_exec).__name__ == "UsageError"
    assert said in captured.stderr and "_fastprof" not in shell.user_ns


def test_help_and_double_dash(shell: Any) -> None:
    result, captured = run(shell, "%fastprof --help")
    assert result.success and "--profile-memory" in captured.stdout
    result, captured = run(shell, "%fastprof -- -1 + 2")
    assert result.success and re.search(r"\b1\b", captured.stdout)


@pytest.mark.filterwarnings("ignore:To exit")  # IPython's, on SystemExit
@pytest.mark.parametrize(
    "line", ["raise KeyError('own')", "1 / 0", "raise KeyboardInterrupt", "raise SystemExit(3)"]
)
def test_an_error_is_the_cells_own_and_the_profile_is_there(shell: Any, line: str) -> None:
    cell = f"%%fastprof --as prof\ndef fails():\n    {line}\n{WORK}fails()\nnever = 1"
    result, captured = run(shell, cell)
    kind = re.split(r"[ (]", line)[1] if line.startswith("raise") else "ZeroDivisionError"
    assert type(result.error_in_exec).__name__ == kind
    assert not result.success and "never" not in shell.user_ns
    assert len(captured.outputs) == 1  # the report
    assert {"work"} <= {event.name for event in shell.user_ns["prof"].events()}
    if "Exit" in line:
        return
    said = re.sub(r"\x1b\[[0-9;]*m", "", captured.stdout + captured.stderr)
    assert "fails()" in said and "cell_code.py" not in said and "run_cell_magic" not in said


def test_a_syntax_error_records_nothing(shell: Any) -> None:
    result, captured = run(shell, "%%fastprof --as prof\nfor")
    assert isinstance(result.error_in_exec, SyntaxError)
    assert "prof" not in shell.user_ns and not captured.outputs


def test_nested_and_within_a_running_profile(shell: Any) -> None:
    with fastprof.profile() as outer:
        result, captured = run(
            shell, f"%%fastprof --as whole\n%fastprof --as part sum(range(10))\n{WORK}"
        )
    assert result.success and len(captured.outputs) == 2
    names = {
        name: {event.name for event in prof.events()}
        for name, prof in (
            ("whole", shell.user_ns["whole"]),
            ("part", shell.user_ns["part"]),
            ("outer", outer),
        )
    }
    assert names["part"] == {"sum(range(10))"}
    assert names["part"] | {"work"} < names["whole"] <= names["outer"]


def test_await_in_a_shell_whose_loop_does_not_run(shell: Any) -> None:
    cell = "%%fastprof --as prof\nimport asyncio\nawait asyncio.sleep(0, 'slept')"
    result, captured = run(shell, cell)
    assert result.success and "slept" in captured.stdout


def test_options_reach_the_profile_and_the_file(shell: Any, tmp_path: Path) -> None:
    page = tmp_path / "a b.html"
    line = f'--with-stack --profile-memory --record-shapes --no-calls --table --html "{page}" --as prof'
    result, captured = run(shell, f"%%fastprof {line}\n{WORK}")
    assert result.success
    prof = shell.user_ns["prof"]
    assert (prof.with_stack, prof.profile_memory, prof.record_shapes) == (True, True, True)
    assert "<iframe" not in captured.outputs[0].data["text/html"]
    assert b"fastprof report" in page.read_bytes()


def test_a_report_too_large_for_a_notebook_is_replaced(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastprof.report.inline.MAX_INLINE_BYTES", 1000)
    _, captured = run(shell, f"%%fastprof\n{WORK}")
    text = captured.outputs[0].data["text/html"]
    assert "<iframe" not in text and "write it with --html FILE" in text and ">work<" in text


def test_only_the_cells_own_work_unless_asked(shell: Any) -> None:
    import threading

    stop, ready = threading.Event(), threading.Event()

    def elsewhere() -> None:
        while not stop.wait(0.001):
            with fastprof.record_function("elsewhere"):
                ready.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    shell.user_ns["wait"] = lambda: (ready.clear(), ready.wait(60))
    try:
        for option, seen in (("", False), ("--all-threads", True)):
            run(shell, f"%%fastprof {option} --as prof\nwait()\nwait()")
            names = {event.name for event in shell.user_ns["prof"].events()}
            assert ("elsewhere" in names) == seen
    finally:
        stop.set()
        thread.join()


def test_torch_in_a_cell(shell: Any) -> None:
    pytest.importorskip("torch")
    cell = "%%fastprof --as prof\ntorch.ones(3).add(1)"
    run(shell, "import torch")
    result, _ = run(shell, cell)
    assert result.success
    assert "aten::add" in {event.name for event in shell.user_ns["prof"].events()}


def test_an_executed_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbclient
    import nbformat

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("PYTHONPATH", str(Path(fastprof.__file__).parents[1]), prepend=os.pathsep)
    cells = [
        "%load_ext fastprof",
        f"%%fastprof --calls --as prof\n{WORK}",
        "prof",
        "prof.events()",
        "prof.event_table",
        "%%fastprof\nimport asyncio\nawait asyncio.sleep(0)",
        f"%%fastprof --as failed\n{WORK}\n1 / 0",
        "{event.name for event in failed.events()} >= {'work'}",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "", "language": "python"}
    client = nbclient.NotebookClient(notebook, timeout=120, allow_errors=True)
    client.execute(cwd=str(tmp_path))
    nbformat.validate(notebook)
    outputs = [cell.outputs for cell in notebook.cells]

    def data(number: int) -> Any:
        return next(o.data for o in outputs[number] if o.output_type != "stream" and "data" in o)

    assert not outputs[0]
    report = next(o.data["text/html"] for o in outputs[1] if "text/html" in getattr(o, "data", {}))
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', report)[1])  # type: ignore[index]
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    for number in (2, 3, 4):
        assert "fastprof-table" in data(number)["text/html"]
    assert "UsageError: await at the top of a cell" in outputs[5][-1].text
    assert outputs[6][-1].ename == "ZeroDivisionError"
    assert "cell_code.py" not in "".join(outputs[6][-1].traceback)
    assert any("<iframe" in getattr(o, "data", {}).get("text/html", "") for o in outputs[6])
    assert data(7)["text/plain"] == "True"
