# SPDX-License-Identifier: Apache-2.0
"""Measure what including fastprof costs a translation unit: compile time, preprocessed lines, bytes of code.

``compile_time.py [--rounds N] [--case TEXT] [--json FILE]``: each case (or those with TEXT in their name) at -O2,
with g++ and clang++ if installed. Times are the compiler's user time, which other programs disturb less than time
by the clock; they are also given as ratios to a file that includes <atomic> and <string>, compiled in the same
round. Compiler caches are disabled.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

INCLUDE = Path(__file__).resolve().parents[2] / "csrc" / "include"
COMPILERS = ("g++", "clang++")
RANGES = 20
BASE = "<atomic> + <string>"


def functions(count: int, body: str) -> str:
    """Return ``count`` functions with ``body``, in which # is replaced by the function's number."""
    return "".join(
        f"void f{i}();\nvoid f{i}() {{ {body.replace('#', str(i))} }}\n" for i in range(count)
    )


def program(headers: str, statements: str) -> str:
    """Return a program that runs a Session around two ranges."""
    return (
        f"{headers}int main() {{\n  fastprof::Session session;\n  session.start();\n"
        '  { FASTPROF_RANGE("a"); FASTPROF_RANGE("b"); }\n  session.stop();\n'
        f"{statements}}}\n"
    )


SESSION = "#include <fastprof/session.hpp>\n"
WHOLE = "#include <fastprof/fastprof.hpp>\n#include <cstdio>\n"
SUMMARY = "  std::puts(session.summary().to_string().c_str());\n"
RANGE = 'FASTPROF_RANGE("r#");'
ANNOTATE = "#include <fastprof/annotate.hpp>\n"
WRITERS = '  session.write_chrome_trace("a.json");\n  session.write_perfetto_trace("a.pftrace");\n'
WHOLE_PROGRAM = program(WHOLE, SUMMARY + WRITERS)
SEPARATE = "#define FASTPROF_SEPARATE\n"
CASES = {
    BASE: "#include <atomic>\n#include <string>\n" + functions(1, ""),
    "annotate.hpp, 1 range": ANNOTATE + functions(1, RANGE),
    f"annotate.hpp, {RANGES} ranges": ANNOTATE + functions(RANGES, RANGE),
    "fastprof.hpp, 1 range": WHOLE + functions(1, RANGE),
    "session.hpp, Session": program(SESSION, ""),
    "session.hpp + summary.hpp": program(
        f"{SESSION}#include <fastprof/summary.hpp>\n#include <cstdio>\n", SUMMARY
    ),
    "fastprof.hpp, Session, summary, both writers": WHOLE_PROGRAM,
    "the same, FASTPROF_SEPARATE": SEPARATE + WHOLE_PROGRAM,
    "definitions.cpp, once a program": "#include <fastprof/definitions.cpp>\n",
}  # fmt: skip


def flags(source: Path) -> list[str]:
    return ["-std=c++17", f"-I{INCLUDE}", str(source)]


def preprocessed_lines(compiler: str, source: Path) -> int:
    """Return the number of lines that ``-E`` prints."""
    output = subprocess.run(
        [compiler, "-E", *flags(source)], check=True, capture_output=True
    ).stdout
    return output.count(b"\n")


def code_bytes(object_file: Path) -> int:
    """Return the size in bytes of the executable sections of an object file."""
    listing = subprocess.run(
        ["readelf", "-S", "-W", object_file], check=True, capture_output=True, text=True
    ).stdout
    total = 0
    for line in listing.splitlines():
        fields = line.rpartition("]")[2].split()  # name type address offset size entry flags ...
        if len(fields) > 6 and fields[1] == "PROGBITS" and "X" in fields[6]:
            total += int(fields[4], 16)
    return total


def compile_once(compiler: str, source: Path, output: Path) -> float:
    """Compile at -O2 and return the user time in seconds."""
    begin_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(
        [compiler, "-O2", "-c", *flags(source), "-o", output],
        check=True,
        env={**os.environ, "CCACHE_DISABLE": "1"},
    )
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begin_s


def measure(compiler: str, rounds: int, chosen: str, folder: Path) -> list[dict[str, object]]:
    """Return the rows of one compiler. The cases of a round run in succession, so that a ratio compares close times."""
    cases = [case for case in CASES if case == BASE or chosen in case]
    sources = {case: folder / f"case{i}.cpp" for i, case in enumerate(cases)}
    for case, source in sources.items():
        source.write_text(CASES[case])
    seconds: dict[str, list[float]] = {case: [] for case in cases}
    code: dict[str, int] = {}
    for _ in range(rounds):
        for case, source in sources.items():
            output = source.with_suffix(".o")
            seconds[case].append(compile_once(compiler, source, output))
            code[case] = code_bytes(output)
    rows: list[dict[str, object]] = []
    for case, source in sources.items():
        ratios = [a / b for a, b in zip(seconds[case], seconds[BASE], strict=True)]
        rows.append({
            "suite": f"compile {compiler}", "case": case, "min_s": min(seconds[case]),
            "median_s": statistics.median(seconds[case]), "median_ratio": statistics.median(ratios),
            "lines": preprocessed_lines(compiler, source), "code_bytes": code[case], "rounds": rounds,
        })  # fmt: skip
    one, many = (code.get(f"annotate.hpp, {n}") for n in ("1 range", f"{RANGES} ranges"))
    if one is None or many is None:
        return rows
    rows.append({
        "suite": f"compile {compiler}", "case": "annotate.hpp, each further range",
        "code_bytes": round((many - one) / (RANGES - 1), 1),
    })  # fmt: skip
    return rows


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case", default="", help="part of the names of the cases to compile")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    for compiler in COMPILERS:
        path = shutil.which(compiler)
        if path is None:
            print(f"{compiler} is not installed", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows += measure(path, options.rounds, options.case, Path(folder))
        print(f"{compiler:48} {'s':>7} {'ratio':>7} {'lines':>8} {'code':>8}")
        for row in rows:
            if row["suite"] == f"compile {path}":
                row["suite"] = f"compile {compiler}"
                time_s, ratio = row.get("min_s"), row.get("median_ratio")
                print(
                    f"{row['case']!s:48} {time_s if time_s is None else f'{time_s:.2f}'!s:>7}"
                    f" {ratio if ratio is None else f'{ratio:.2f}'!s:>7} {row.get('lines', '')!s:>8} {row['code_bytes']!s:>8}"
                )
    if options.json:
        Path(options.json).write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
