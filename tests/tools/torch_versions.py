# SPDX-License-Identifier: Apache-2.0
"""Run fastprof's torch tests against versions of torch, and write the results into docs/torch_versions.md.

    python tests/tools/torch_versions.py              the newest patch of each release from 2.6 on
    python tests/tools/torch_versions.py 2.15.0       one version, as when it has just been released
    python tests/tools/torch_versions.py --here       the torch of the environment that this runs in

Each version is installed into its own environment below build/torch_versions/, which is removed afterwards. The tested
fastprof is the one in python/, whose _core must be built for the Python that runs this. In each environment it runs:

- layout: offsets compiled from the version's headers are compared with fastprof's tables;
- without a compiler: a profile with shapes, memory, stacks and modules, in an environment without a compiler, with
  all warnings but fastprof's own as errors;
- the tests of TESTS, which compare with the torch.profiler of that version.

The version's row in the table is replaced; all other text is unchanged. The row lists the test files if not all were
run. Results are stored beside the environments in VERSION.json: with --reuse, test files may be run in several calls.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, NamedTuple

from torch_environments import make_environment, python_of

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "docs" / "torch_versions.md"
INTEGRATION = ROOT / "tests" / "python" / "integration"
TESTS = (*sorted(INTEGRATION.glob("test_torch_*.py")), INTEGRATION / "test_import_torch.py")
FIRST_RELEASE = (2, 6)
_TEST_LIMIT_S = 1200
_ALL = "the whole file"  # stands for a test where a file's tests crashed or did not end
_PROGRAM_LIMIT_S = 600

# Prints what is compared as JSON in its last line.
_LAYOUT = """
    import json, torch
    from fastprof import _core
    from fastprof.adapters.torch.headers import LayoutError, layout_from_headers
    from fastprof.adapters.torch.layout import SECTIONS
    from fastprof.adapters.torch.versions import cxx11_abi
    version, abi = torch.__version__, cxx11_abi(torch)
    tables = {
        "ops": _core.torch_known_layout(version, abi),
        "inputs": _core.torch_known_input_layout(version, abi),
        "memory": _core.torch_known_memory_layout(version),
    }
    said = {}
    for section in SECTIONS:
        try:
            found = layout_from_headers(torch, section)
        except LayoutError as error:
            found = None
        listed = tables[section]
        same = listed is not None and found == list(listed)
        said[section] = "equal" if same else "not listed" if listed is None else "differs"
    print(json.dumps({"version": version, "cxx11_abi": abi, "sections": said}))
"""
_WITHOUT_COMPILER = """
    import json, torch, fastprof
    with fastprof.profile(
        record_shapes=True, profile_memory=True, with_stack=True, with_modules=True
    ) as p:
        torch.ones(3, requires_grad=True).add(2).sum().backward()
        with torch._C._profiler._RecordFunctionFast("fast"):
            pass
    named = {event.name: event for event in p.events()}
    held = {
        "ops": "aten::add" in named,
        "shapes": named["aten::add"].input_shapes == [[3], [], []],
        "memory": named["aten::add"].cpu_memory_usage == 12,
        "stacks": bool(named["aten::add"].stack),
        "fast ranges": "fast" in named,
    }
    print(json.dumps({"held": [k for k, v in held.items() if v], "missing": p.missing}))
"""


class Held(NamedTuple):
    """A row of the table."""

    version: str
    date: str
    python: str
    layout: str
    without_compiler: str
    tests: str

    def row(self) -> str:
        """Return the row as Markdown."""
        return f"| {' | '.join(self)} |"


def releases() -> list[str]:
    """Return the newest patch of each release in the package index from FIRST_RELEASE on, newest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", "torch"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    newest: dict[tuple[int, int], tuple[int, str]] = {}
    for major, minor, patch in re.findall(r"\b(\d+)\.(\d+)\.(\d+)\b", said):
        release = int(major), int(minor)
        newest[release] = max(
            newest.get(release, (0, "")), (int(patch), f"{major}.{minor}.{patch}")
        )
    return [newest[r][1] for r in sorted(newest, reverse=True) if r >= FIRST_RELEASE]


def try_version(python: Path, tests: list[str], record: Path) -> Held:
    """Run everything with the interpreter's torch.

    record: file with the outcome of each test of this version; new outcomes are added to it.
    """
    with tempfile.TemporaryDirectory() as cache:
        layout = _told(python, _LAYOUT, cache)
        quiet = ("-W", "error", "-W", "ignore:profile:UserWarning")  # what is missing is counted
        bare = _told(python, _WITHOUT_COMPILER, cache, *quiet, PATH="", CXX="")
        outcomes = _run_tests(python, tests, record, cache)
    sections: dict[str, str] = layout["sections"]
    same = [name for name, said in sections.items() if said == "equal"]
    other = [f"{name} {said}" for name, said in sections.items() if said != "equal"]
    return Held(
        version=f"{layout['version']}{'' if layout['cxx11_abi'] else ', older string ABI'}",
        date=datetime.date.today().isoformat(),
        python=platform.python_version(),
        layout="; ".join([f"{', '.join(same)} equal", *other]),
        without_compiler=", ".join(bare["held"])
        + "".join(f"; not {name}" for name in bare["missing"]),
        tests=_counts(outcomes),
    )


def _run_tests(python: Path, tests: list[str], record: Path, cache: str) -> dict[str, str]:
    """Return test -> outcome for the tests of `record` and `tests`.

    Each test file runs in a process of its own: a crash or hang is one failure, and the other files run.
    """
    outcomes: dict[str, str] = json.loads(record.read_text()) if record.exists() else {}
    environment = {**os.environ, "XDG_CACHE_HOME": cache, "PYTHONPATH": str(ROOT / "python")}
    for file in tests:
        name = str(Path(file).resolve().relative_to(ROOT))
        report = record.with_suffix(".xml")
        report.unlink(missing_ok=True)
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-m", "integrations", f"--junitxml={report}", file]
        begun = time.monotonic()
        ended = _ran_to_its_end(command, environment)
        took = f"took {time.monotonic() - begun:.0f} s" if ended else "did not end and was killed"
        print(f"{name}: {took}", file=sys.stderr)
        outcomes = {test: o for test, o in outcomes.items() if not test.startswith(f"{name}::")}
        outcomes |= _outcomes(report) if report.exists() else {f"{name}::{_ALL}": "failed"}
        record.write_text(json.dumps(outcomes, indent=0))
    return outcomes


def _ran_to_its_end(command: list[str], environment: dict[str, str]) -> bool:
    """Run a test file; at the time limit, kill it with every process that it started."""
    with subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True) as tests:
        try:
            tests.wait(_TEST_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(tests.pid, signal.SIGKILL)
            return False
    return True


def _told(
    python: Path, program: str, cache: str, *options: str, **environment: str
) -> dict[str, Any]:
    done = subprocess.run(
        [str(python), *options, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=_PROGRAM_LIMIT_S,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "XDG_CACHE_HOME": cache, **environment},
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{python}:\n{done.stdout}{done.stderr}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _outcomes(report: Path) -> dict[str, str]:
    """Return test id -> "passed", "skipped" or "failed", from pytest's report."""
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        # "tests.python.test_x", or with a class of tests behind it.
        *modules, last = str(case.get("classname")).split(".")
        group = [last] if last.startswith("Test") else []
        file = "::".join(["/".join([*modules, *([] if group else [last])]) + ".py", *group])
        parts = {part.tag for part in case}
        wrong = parts & {"failure", "error"}
        outcomes[f"{file}::{case.get('name')}"] = (
            "failed" if wrong else "skipped" if "skipped" in parts else "passed"
        )
    return outcomes


def _counts(outcomes: dict[str, str]) -> str:
    """Return the text of passed, skipped and failed tests."""
    files = dict.fromkeys(test.split("::")[0] for test in outcomes)
    all_were_run = {str(path.relative_to(ROOT)) for path in TESTS} <= files.keys()
    names = [Path(file).stem.removeprefix("test_").removeprefix("torch_") for file in files]
    told = [
        f"{sum(outcome == kind for outcome in outcomes.values())} {kind}"
        for kind in ("passed", "skipped")
    ]
    failed = [test.split("::", 1)[1] for test, outcome in outcomes.items() if outcome == "failed"]
    if failed:
        told.append(f"{len(failed)} failed: {', '.join(failed)}")
    return ("all: " if all_were_run else f"of {', '.join(names)}: ") + ", ".join(told)


def write(held: Held) -> None:
    """Replace or insert the row of this version in the report; rows are sorted, newest first."""
    lines = REPORT.read_text().splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("|---"))
    end = next((i for i in range(rule, len(lines)) if not lines[i].startswith("|")), len(lines))
    rows = [row for row in lines[rule + 1 : end] if _numbers(row) != _numbers(held.row())]
    rows.append(held.row())
    rows.sort(key=_numbers, reverse=True)
    REPORT.write_text("\n".join([*lines[: rule + 1], *rows, *lines[end:]]) + "\n")


def _numbers(row: str) -> list[int]:
    """Return the version of a row, without its build suffix."""
    return [int(number) for number in re.findall(r"\d+", row)[:3]]


def main() -> None:
    """Make the environments, run the tests, write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*", help="default: the newest patch of each release")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "torch_versions")
    parser.add_argument("--keep", action="store_true", help="keep the environments")
    parser.add_argument("--reuse", action="store_true", help="use those that were kept")
    parser.add_argument("--here", action="store_true", help="the torch installed here; no versions")
    parser.add_argument("--whole", action="store_true", help="with the libraries for GPUs")
    parser.add_argument("--tests", nargs="+", default=[str(path) for path in TESTS])
    parser.add_argument("--no-write", action="store_true", help="print the rows only")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for version in ["here"] if options.here else options.versions or releases():
        folder = options.folder / f"torch-{version}"
        python = Path(sys.executable) if options.here else python_of(folder)
        record = options.folder / f"{version}.json"
        if not options.here and not (options.reuse and python.exists()):
            make_environment(folder, version, whole=options.whole)
            record.unlink(missing_ok=True)
        held = try_version(python, options.tests, record)
        print(held.row(), flush=True)
        if not options.no_write:
            write(held)
        if not options.keep and folder.exists():
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
