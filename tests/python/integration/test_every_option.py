# SPDX-License-Identifier: Apache-2.0
"""Every option of the commands, taken from their parsers, on several programs: it ends, and its files can be read."""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import pstats
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import python

import fastprof
from fastprof.cli.formats import FORMATS
from fastprof.cli.main import make_parser
from fastprof.cli.recording_options import add_recording_options

pytestmark = pytest.mark.nightly
# name -> (program, its last line)
PROGRAMS = {
    "threads": (
        "import concurrent.futures, threading, fastprof\n"
        "def work(n):\n    with fastprof.record_function('work'): return sum(range(n))\n"
        "pool = concurrent.futures.ThreadPoolExecutor(2); print(list(pool.map(work, range(9))))\n"
        "threading.Thread(target=work, args=(1000,)).start()",
        "",
    ),
    "asyncio": (
        "import asyncio, fastprof\nasync def one(n):\n"
        "    with fastprof.record_function('one'): await asyncio.sleep(0.01); return n\n"
        "async def main(): print(await asyncio.gather(*map(one, range(5))))\nasyncio.run(main())",
        "",
    ),
    "numpy": ("import numpy; print(numpy.ones((64, 64)) @ numpy.ones(64))", ""),
    "processes": (
        "import multiprocessing as m, fastprof\n"
        "def work(n):\n    with fastprof.record_function('work'): return n * n\n"
        "if __name__ == '__main__':\n"
        "    with m.get_context('fork').Pool(2) as pool: print(pool.map(work, range(4)))",
        "",
    ),
    "exception": ("import fastprof\nwith fastprof.record_function('work'): pass", "1 / 0"),
    "empty": ("", ""),
}
# Values of options, by their metavar. `{}`: what makes names of files differ.
VALUES = {
    "KEY": "count", "N": "3", "US": "5", "MB": "512", "MS": "1", "P": "1", "PERCENT": "1000", "ID": "0",
    "DIR": ".", "FOLDER": "ranks.made", "TIME": "cpu_time_total", "NAME": "page-faults", "FILE": "file.out",
    "NAME=VALUE,...": "max_step_s=60", "HZ": "200", "MODE": "cpu",
}  # fmt: skip
SUFFIXES = {"--csv": ".csv", "--html": ".html", "--output": ".json", "--explanation": ".out"}
COMPANIONS = {
    "--spill-folder": ["--overflow", "spill"],
    "--to memory": ["--exact-python-memory"],
    "--depth": ["--tree"],
    "--min-percent": ["--tree"],
    "--open": ["--html"],
}
# What a machine may not be able to record; the command then ends with 2 and says why.
MAY_BE_MISSING = ("--counter",)
LIVE = ("run", "explain --live")
_recording = argparse.ArgumentParser(add_help=False)
add_recording_options(_recording)
RECORDING = {name for action in _recording._actions for name in action.option_strings}
READ = ("processes", "exception", "empty")  # the programs whose traces are read


def spellings(command: str) -> Iterator[list[str]]:
    """Yield each option of a command, with each of its choices or with a value."""
    parser = make_parser("fastprof")
    commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for action in commands.choices[command.split()[0]]._actions:
        names = action.option_strings
        if (
            not names
            or action.help == argparse.SUPPRESS
            or names[0] in ("-h", "-m", "-c", "--live")
        ):
            continue
        if isinstance(action, argparse.BooleanOptionalAction):
            yield from ([name] for name in names)
        elif action.nargs == 0:
            yield names[:1]
        elif action.choices is not None:
            yield from ([names[-1], choice] for choice in action.choices)
        else:
            name = names[-1]
            if action.nargs == "?":
                yield [name]
            given = f"made{SUFFIXES.get(name, '.json')}"
            value = given if action.metavar == "PATH" else VALUES[str(action.metavar)]
            yield [f"{name}={value}"] if action.nargs == "?" else [name, value]


CASES = [
    pytest.param(command, program, words, id=f"{command}, {program}: {' '.join(words)}")
    for command in (*LIVE, "explain", "report", "diff", "convert", "recover")
    for words in spellings(command)
    for program in (PROGRAMS if command in LIVE else READ)
]


def fastprof_(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "fastprof", *words, cwd=folder, BROWSER="true %s")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trace NAME.fastprof and a backing file NAME.records of each program that is read."""
    folder = tmp_path_factory.mktemp("recorded")
    for name in READ:
        program, end = PROGRAMS[name]
        (folder / f"{name}.py").write_text(f"{program}\n{end}\n")
        words = ["--calls", "--exact-python-memory", "--follow", "--calibrate"]
        words += ["-o", f"{name}.fastprof"]
        fastprof_(folder, "run", *words, f"{name}.py")
        (folder / f"{name}.py").write_text(f"{program}\nimport os; os._exit(0)\n")
        words = ["--exact-python-memory", "--backing-file", f"{name}.records"]
        fastprof_(folder, "run", *words, f"{name}.py")
    return folder


def check_file(path: Path) -> None:
    """Check that a file can be read in the format that its name says."""
    name = path.name.removesuffix(".gz")
    content = gzip.decompress(path.read_bytes()) if name != path.name else path.read_bytes()
    known = [s for suffixes, *_ in FORMATS.values() for s in suffixes if name.endswith(s)]
    kind = max(known, key=len, default="")
    if not kind:
        assert content
    elif kind in (".fastprof", ".pftrace", ".perfetto-trace", ".pprof", ".pb"):
        fastprof.load(path)
    elif kind.endswith(".json"):
        json.loads(content)
    elif kind.endswith((".html", ".htm")):
        assert content.lower().startswith(b"<!doctype html>") and b"</html>" in content[-100:]
    elif kind.endswith(".csv"):
        assert len({len(row) for row in csv.reader(content.decode().splitlines())}) <= 1
    elif kind in (".pstats", ".prof"):
        pstats.Stats(str(path))
    else:
        assert all(re.fullmatch(r".+ \d+", line) for line in content.decode().splitlines())


@pytest.mark.parametrize(("command", "program", "words"), CASES)
def test_an_option(
    recorded: Path, tmp_path: Path, command: str, program: str, words: list[str]
) -> None:
    option = words[0].partition("=")[0]
    if option == "--step":
        words = [option, "p.py" if command in LIVE else f"{program}.py"]
    if "memory" not in words or command in LIVE:
        words = words + COMPANIONS.get(" ".join(words), COMPANIONS.get(option, []))
    kind = words[words.index("--to") + 1] if "--to" in words else "chrome"
    out = f"out{FORMATS[kind][0][0]}"
    code, after = 0, [str(recorded / f"{program}.fastprof")]
    if command in LIVE:
        (tmp_path / "p.py").write_text("\n".join(PROGRAMS[program]) + "\n")
        code, after = (1 if program == "exception" else 0), ["p.py"]
    elif command == "diff":
        after.append(str(recorded / f"{READ[READ.index(program) - 1]}.fastprof"))
    elif command == "convert":
        after.append(out)
    elif command == "recover":
        after = [str(recorded / f"{program}.records")]
    if "--to" in words and command != "convert":
        words += ["-o", out]
    if words[-1] in ("--html", "--sample") and command not in LIVE:
        after = [*after, words.pop()]  # else it would take the file's name as its own
    done = fastprof_(tmp_path, *command.split(), *words, *after)
    said = done.stdout + done.stderr
    if option in MAY_BE_MISSING and done.returncode == 2:
        assert "error: " in said and "Traceback" not in said
        return
    if (
        command == "explain" and option in RECORDING and words[-1:] != ["drop_newest"]
    ):  # the default
        assert done.returncode == 2 and "of a recording" in said
        return
    if option == "--metric" and "device_time" in words[1]:
        code = 2  # neither trace contains any
    limited = option.startswith("--max-") and command == "diff"
    assert done.returncode in ((0, 1) if limited else (code,)), said
    assert ("Traceback (" in said) == (code == 1) and f"{os.sep}fastprof{os.sep}cli" not in said, (
        said
    )
    files = set(re.findall(r"wrote (\S+?)(?:;|$)", said, re.MULTILINE))
    named = (word.rpartition("=")[2] for word in (*words, *after))
    files |= {word for word in named if word.startswith(("made", "out"))}
    for file in files:
        check_file(tmp_path / file)
