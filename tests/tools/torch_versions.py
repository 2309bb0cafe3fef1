# SPDX-License-Identifier: Apache-2.0
"""Run fastprof's torch tests against versions of torch, and write what held into docs/torch_versions.md.

    python tests/tools/torch_versions.py              the newest patch of each release from 2.6 on
    python tests/tools/torch_versions.py 2.15.0       one version, as when it has just been released

Each version is installed into an environment of its own under build/torch_versions/, which is removed afterwards. The
fastprof that is tested is the one in python/, whose _core must have been built for the Python that
runs this. What is run in each environment:

- layout: what the version's headers say, compiled, is compared with fastprof's tables;
- without a compiler: a profile with shapes, memory, stacks and modules is made where no compiler is found, with
  all warnings but fastprof's own as errors;
- the tests of TESTS, which compare with the torch.profiler of that version.

The row of the version is replaced in the table; other rows and all other text stay as they are.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

from torch_environments import make_environment, python_of

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "docs" / "torch_versions.md"
INTEGRATION = ROOT / "tests" / "python" / "integration"
TESTS = (*sorted(INTEGRATION.glob("test_torch_*.py")), INTEGRATION / "test_import_torch.py")
FIRST_RELEASE = (2, 6)
_TEST_LIMIT_S = 3600
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
        """As Markdown."""
        return f"| {' | '.join(self)} |"


def releases() -> list[str]:
    """The newest patch of each release from FIRST_RELEASE on that the package index has, newest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", "torch"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    newest: dict[tuple[int, int], tuple[int, str]] = {}
    for major, minor, patch in re.findall(r"\b(\d+)\.(\d+)\.(\d+)\b", said):
        release = int(major), int(minor)
        newest[release] = max(
            newest.get(release, (0, "")), (int(patch), f"{major}.{minor}.{patch}")
        )
    return [newest[r][1] for r in sorted(newest, reverse=True) if r >= FIRST_RELEASE]


def try_version(python: Path, tests: list[str], report: Path) -> Held:
    """Run everything with the torch that this interpreter has. report: where pytest puts its results."""
    with tempfile.TemporaryDirectory() as cache:
        layout = _told(python, _LAYOUT, cache)
        quiet = ("-W", "error", "-W", "ignore:profile:UserWarning")  # what is missing is counted
        bare = _told(python, _WITHOUT_COMPILER, cache, *quiet, PATH="", CXX="")
        environment = {**os.environ, "XDG_CACHE_HOME": cache, "PYTHONPATH": str(ROOT / "python")}
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-m", "integrations", f"--junitxml={report}", *tests]
        subprocess.run(command, cwd=ROOT, env=environment, timeout=_TEST_LIMIT_S)
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
        tests=_counts(report),
    )


def _told(
    python: Path, program: str, cache: str, *options: str, **environment: str
) -> dict[str, object]:
    done = subprocess.run(
        [str(python), *options, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=_PROGRAM_LIMIT_S,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "XDG_CACHE_HOME": cache, **environment},
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{python}:\n{done.stdout}{done.stderr}")
    told: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return told


def _counts(report: Path) -> str:
    """What pytest's report says: passed, skipped, and which failed."""
    passed, skipped = 0, 0
    failed = []
    for case in ElementTree.parse(report).iter("testcase"):
        outcomes = {part.tag for part in case}
        if outcomes & {"failure", "error"}:
            failed.append(str(case.get("name")))
        elif "skipped" in outcomes:
            skipped += 1
        else:
            passed += 1
    told = f"{passed} passed, {skipped} skipped"
    return f"{told}, {len(failed)} failed: {', '.join(failed)}" if failed else told


def write(held: Held) -> None:
    """Replace the row of this version in the report, or add it in its place, newest first."""
    lines = REPORT.read_text().splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("|---"))
    end = next((i for i in range(rule, len(lines)) if not lines[i].startswith("|")), len(lines))
    rows = [row for row in lines[rule + 1 : end] if not row.startswith(f"| {held.version} |")]
    rows.append(held.row())
    rows.sort(key=lambda row: [int(n) for n in re.findall(r"\d+", row)[:3]], reverse=True)
    REPORT.write_text("\n".join([*lines[: rule + 1], *rows, *lines[end:]]) + "\n")


def main() -> None:
    """Make the environments, run the tests, write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*", help="default: the newest patch of each release")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "torch_versions")
    parser.add_argument("--keep", action="store_true", help="keep the environments")
    parser.add_argument("--reuse", action="store_true", help="use those that were kept")
    parser.add_argument("--whole", action="store_true", help="with the libraries for GPUs")
    parser.add_argument("--tests", nargs="+", default=[str(path) for path in TESTS])
    parser.add_argument("--no-write", action="store_true", help="print the rows only")
    options = parser.parse_args()
    for version in options.versions or releases():
        folder = options.folder / f"torch-{version}"
        if not options.reuse or not python_of(folder).exists():
            make_environment(folder, version, whole=options.whole)
        held = try_version(python_of(folder), options.tests, options.folder / f"{version}.xml")
        print(held.row(), flush=True)
        if not options.no_write:
            write(held)
        if not options.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
