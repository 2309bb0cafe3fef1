# SPDX-License-Identifier: Apache-2.0
"""fastprof report as tree, flame graph and page; comparisons in colours and narrow terminals; wrong options."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_traces import run, saved_pair, table_of
from trace_tables import T0

import fastprof
from fastprof.model.table import EventTable

Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return saved_pair(tmp_path)


def test_a_report_as_tree_and_flame_graph(tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / "a.fastprof"
    table = EventTable(
        {"start_ns": [0, 0, 600_000], "end_ns": [1_000_000, 600_000, 603_000], "site": [0, 1, 2]},
        sites=[fastprof.Site(name) for name in ("step", "fit", "tiny")],
    )
    fastprof.save(table, path)

    def lines(*options: str) -> list[str]:
        assert run("report", path, *options) == 0
        return capsys.readouterr().out.rstrip("\n").split("\n")[2:]

    whole = lines("--tree", "--min-percent", "0")
    assert [line[45:] for line in whole] == ["Name", "step", "  fit", "  tiny"]
    assert [line[45:] for line in lines("--tree")] == ["Name", "step", "  fit", "  [1 more]"]
    assert [line[45:] for line in lines("--tree", "--min-percent", "0.3")] == [
        "Name", "step", "  fit", "  tiny",
    ]  # fmt: skip
    assert lines("--tree", "--depth", "1")[1].endswith("step")
    assert lines("--tree", "--time-unit", "us")[1].startswith("  1000.000us")
    flame = lines("--flame")
    assert flame[0] == "all: 1.000ms" and flame[1] == "|step" and flame[2].startswith("|fit")
    both = lines("--tree", "--flame")
    assert both[: len(lines("--tree"))] == lines("--tree")
    assert both[-len(flame) :] == flame and "" in both
    assert lines("--flame", "--depth", "1")[-1] == "1 deeper levels: use a larger depth"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--depth", "0"), "invalid --depth 0. Use 1 or more levels."),
        (("--min-percent", "-0.1"), "invalid --min-percent -0.1. Use 0 to 100."),
        (("--min-percent", "100.1"), "invalid --min-percent 100.1. Use 0 to 100."),
        (("--nothing",), "unknown option --nothing"),
        (("--dept=1",), "unknown option --dept=1; did you mean --depth?"),
        (("more",), "cannot read more"),
    ],
)
def test_wrong_options_of_reports(
    pair: tuple[Path, Path], capsys: Capsys, words: tuple[str, ...], message: str
) -> None:
    try:
        code = run("report", pair[0], *words)
    except SystemExit as left:
        code = int(str(left.code))
    assert code == 2 and message in capsys.readouterr().err
    for limit in ("0", "100"):
        assert run("report", pair[0], "--tree", "--min-percent", limit, "--depth", "1") == 0


@pytest.mark.parametrize("words", [("config",), ()])  # without: as it was spelled first
def test_folders_for_compilers(words: tuple[str, ...], capsys: Capsys) -> None:
    assert run(*words, "--includes") == 0
    flag = capsys.readouterr().out.strip()
    assert flag.startswith("-I") and (Path(flag[2:]) / "fastprof" / "fastprof.hpp").is_file()
    assert run(*words, "--cmakedir") == 0
    folder = Path(capsys.readouterr().out.strip())
    assert all((folder / f"fastprofConfig{what}.cmake").is_file() for what in ("", "Version"))
    assert run(*words, "--pkgconfigdir") == 0
    assert (Path(capsys.readouterr().out.strip()) / "fastprof.pc").is_file()


def test_folders_that_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from fastprof import _paths

    package = tmp_path / "source" / "python" / "fastprof"
    monkeypatch.setattr(_paths, "__file__", str(package / "_paths.py"))
    with pytest.raises(FileNotFoundError, match=r"cannot find the fastprof headers.*Reinstall"):
        _paths.include_dir()
    with pytest.raises(FileNotFoundError, match=r"cannot find fastprofConfig\.cmake.*Reinstall"):
        _paths.cmake_dir()
    with pytest.raises(FileNotFoundError, match=r"cannot find fastprof\.pc.*Reinstall"):
        _paths.pkg_config_dir()
    tree = tmp_path / "source"
    for folder, name in ((tree / "cmake", "fastprofConfig.cmake"),
                         (package / "share/cmake/fastprof", "fastprofConfig.cmake")):  # fmt: skip
        folder.mkdir(parents=True)
        (folder / name).touch()
        assert _paths.cmake_dir() == folder  # the package's own wins


def test_a_comparison_in_colours_and_in_a_narrow_terminal(
    pair: tuple[Path, Path], capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastprof.base.text_style import TextStyle
    from fastprof.cli import diff
    from fastprof.cli.screen import Screen

    def lines(screen: Screen) -> list[str]:
        monkeypatch.setattr(diff.Screen, "of", classmethod(lambda cls, stream: screen))
        run("diff", *pair)
        return capsys.readouterr().out.splitlines()

    plain = lines(Screen())
    coloured = lines(Screen(None, TextStyle(True, True)))
    by_name = {line.split()[0]: line for line in coloured if line[:1].isalpha()}
    assert "\x1b[31m" in by_name["slower"] and "\x1b[32m" in by_name["gone"]
    assert "\x1b" not in by_name["name"] and "\x1b" not in by_name.get("steady", "")
    head = next(line for line in plain if line.startswith("name"))
    for width in (len(head), len(head) + 3, 40):
        narrow = lines(Screen(width))
        assert max(map(len, narrow[2:-1])) <= max(width, len(head))


def test_the_report_of_a_trace_as_a_page(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is written, what is in it, and what is said of it."""
    import webbrowser

    from report_reader import read_report

    opened: list[str] = []

    def browser(address: str) -> bool:
        opened.append(address)
        return not opened[1:]  # the second time there is none

    monkeypatch.setattr(webbrowser, "open", browser)
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "program.py"
    source.write_text("text of the file\n")
    table = EventTable(
        {"start_ns": [T0], "end_ns": [T0 + 5000], "site": [0]},
        sites=[fastprof.Site("a", file=str(source), line=1)], t0_ns=T0,
        metadata={"host_name": "there", "trace_id": 7, "format": ["odd"]},
    )  # fmt: skip
    fastprof.save(table, "a.fastprof")
    assert run("report", "a.fastprof") == 0 and not Path("a.html").exists()
    capsys.readouterr()
    assert run("report", "a.fastprof", "--html", "--open") == 0
    out = capsys.readouterr()
    assert out.out.endswith("wrote a.html\n") and out.err == ""
    page = (tmp_path / "a.html").resolve()
    assert opened == [page.as_uri()]
    data = read_report(page, "a")
    assert data.text("sources") == {str(source): "text of the file\n"}
    facts = str(data.head["facts"])
    assert "there" in facts and "7" in facts and "odd" not in facts
    assert run("report", "a.fastprof", "--html", "b.html", "--no-source") == 0
    assert capsys.readouterr().out.endswith("wrote b.html\n") and len(opened) == 1
    assert read_report(tmp_path / "b.html", "a").text("sources") is None
    assert run("report", "a.fastprof", "--open") == 0
    assert "no browser found: open a-2.html in one" in capsys.readouterr().err


def test_the_report_of_a_folder_of_processes(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which processes there are, and what is missing; the traces asked for."""
    table = table_of(step=[100])
    table.metadata.update(
        processes=[
            {"pid": 7, "parent_pid": 1, "name": "main", "rows": 1, "open_ranges": 0, "alive": True},
            {"pid": 9, "parent_pid": 7, "name": "worker", "rows": 1200, "open_ranges": 2, "alive": False},
        ],
        problems=["pid 11: its file is damaged"],
    )  # fmt: skip
    asked: list[tuple[str, int]] = []

    def read(file: str, session: int) -> EventTable:
        asked.append((file, session))
        return table

    monkeypatch.setattr(fastprof, "recover", read)
    output = tmp_path / "all.fastprof"
    assert run("recover", "folder", "--session", "3", "-o", output) == 0
    text = capsys.readouterr().out
    assert asked == [("folder", 3)]
    assert text.startswith("folder (folder of 2 processes)\n")
    for line in (
        "pid 7, child of 1: main, 1 row, 0 open, still running",
        "pid 9, child of 7: worker, 1200 rows, 2 open",
        "missing: pid 11: its file is damaged",
    ):
        assert line in text.splitlines()
    assert "step" in text and len(fastprof.load(output)) == 1
