# SPDX-License-Identifier: Apache-2.0
"""Compare samplers on the same programs: what they cost, and how far their shares are from what the programs measured.

``samplers.py [--rounds N] [--seconds S] [--programs NAME ...] [--json FILE]``. Each program works for some seconds, three quarters of its
units in `hot` and the others in `cold`, and prints the units of a second of CPU time, and the CPU time of both. In each
round it runs once without a sampler and once under each that is installed, at 1000 Hz, in random order:

- slowdown: CPU time of a unit, with that of samplers in the process, divided by that without a sampler in the same
  round; the median and quartiles
- share_error: the sampler's share of `hot` less the program's own, in CPU or wall time, the largest of all rounds
- wrong_callers: part of the time of `hot` and `cold` that has another caller than `turn`
- a sampler under which a program of some seconds takes more than a minute is left out of the further rounds, and its
  row has "slowdown": None
- missed: ticks that fastprof missed, of all; others do not say so in a way that can be compared
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fastprof
from fastprof.attach.outside import sample_from_outside
from fastprof.model.tree import EventTree

HZ = 1000
LONGEST_S = 60.0
COMMON = """
import json, sys, threading, time
used = {"hot": [], "cold": []}
units, clock = [], {}
def hot(): work(); work(); work()
def cold(): work()
def turn(lock):
    for function in (hot, cold):
        with lock:
            begin = time.thread_time_ns()
            function()
            used[function.__name__].append(time.thread_time_ns() - begin)
    units.append(4)
def goes_on():
    clock.setdefault("cpu_s", time.process_time())
    return time.monotonic() < clock.setdefault("end_s", time.monotonic() + float(sys.argv[1]))
class Free:
    def __enter__(self): pass
    def __exit__(self, *error): pass
def loop(lock=Free()):
    while goes_on(): turn(lock)
def threads(number, lock):
    all_of_them = [threading.Thread(target=loop, args=(lock,)) for _ in range(number)]
    for each in all_of_them: each.start()
    for each in all_of_them: each.join()
"""
PYTHON_WORK = "def work(): return sum(i * i for i in range(2000))\n"
PROGRAMS = {
    "4 busy threads": PYTHON_WORK + "threads(4, Free())",
    "convoy of 8 threads": PYTHON_WORK + "threads(8, threading.Lock())",
    "asyncio": PYTHON_WORK + """
import asyncio
async def serve():
    while goes_on():
        turn(Free())
        await asyncio.sleep(0)
async def main(): await asyncio.gather(*(serve() for _ in range(50)))
asyncio.run(main())
""",
    "NumPy": "import numpy\na = numpy.ones((96, 96))\ndef work():\n    for _ in range(20): numpy.tanh(a)\nloop()",
    "torch": """
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
optimizer, x = torch.optim.SGD(model.parameters(), 0.01), torch.ones(16, 64)
def work():
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
loop()
""",
}  # fmt: skip
END = """
hot, cold = (sum(used[each]) for each in ("hot", "cold"))
print(json.dumps({"units": sum(units) / (time.process_time() - clock["cpu_s"]), "share": hot / (hot + cold)}), flush=True)
"""


def commands(script: Path, seconds: float, out: Path) -> dict[str, tuple[list[str], Path]]:
    """Return the commands of the samplers that are installed, and the files that they write."""
    program = [sys.executable, str(script), str(seconds)]
    fast = [sys.executable, "-m", "fastprof"]
    own = out / "own.fastprof"
    found = {
        "(none)": (program, out),
        "fastprof": ([*fast, "run", f"--sample={HZ}", "-o", str(own), *program[1:]], own),
        "fastprof attach --outside": (program, out / "outside.fastprof"),
    }
    beside = Path(sys.executable).parent
    for name, file, words in (
        ("py-spy", "spy.json", ["record", "-r", str(HZ), "-t", "-f", "speedscope", "-o", "", "--"]),
        ("austin", "austin.txt", ["-i", "1ms", "-o", ""]),
        ("perf", "perf.data", ["record", "-q", "-F", str(HZ), "-e", "cpu-clock", "-g", "-o", "", "--"]),
    ):  # fmt: skip
        command = shutil.which(name, path=str(beside)) or shutil.which(name)
        starts = command and subprocess.run([command, "--version"], capture_output=True)
        if starts and starts.returncode == 0:
            path = str(out / file)
            found[name] = ([command, *(word or path for word in words), *program], out / file)
    if sys.version_info >= (3, 15):  # the standard library's
        words = ["-m", "profiling.sampling", "run", "-r", str(HZ), "-a", "--binary", "-o"]
        path = str(out / "tachyon.bin")
        found["profiling.sampling"] = ([sys.executable, *words, path, *program[1:]], Path(path))
    if find_spec("pyinstrument"):
        path = out / "instrument.json"
        words = ["-m", "pyinstrument", "-i", "0.001", "-r", "speedscope", "-o", str(path)]
        found["pyinstrument"] = ([sys.executable, *words, *program[1:]], path)
    return found


def run(sampler: str, words: list[str], path: Path, seconds: float) -> dict[str, Any]:
    """Return what the program printed. Raises subprocess.TimeoutExpired after a minute more than it should take."""
    if sampler != "fastprof attach --outside":
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=seconds + LONGEST_S, cwd=path.parent
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith('{"units"')]
        if not lines:
            raise SystemExit(f"{sampler}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return dict(json.loads(lines[0]))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        time.sleep(0.3)  # until it is Python; its imports may take longer
        sample_from_outside(process.pid, HZ, seconds + 60).table.export(path)
        return dict(json.loads(process.communicate(timeout=600)[0]))


def read(path: Path) -> dict[str, float]:
    """Return the share of `hot`, the part of wrong callers, and the ticks missed, of a sampler's file."""
    if path.suffix == ".data":
        text = subprocess.run(["perf", "script", "-i", path], capture_output=True, timeout=600)
        path = path.with_suffix(".txt")
        path.write_bytes(text.stdout)
    table = fastprof.load(path)
    functions = [site.function or site.name for site in table.sites]
    names = [functions[site].rpartition(".")[2] for site in table.column("site").tolist()]
    took_ns = {"hot": 0, "cold": 0}
    wrong_ns = 0
    tree = EventTree.of(table)
    kept = range(len(table)) if tree.rows is None else tree.rows.tolist()
    names = [names[row] for row in kept]
    lengths_ns = [int(table.end_ns[row] - table.start_ns[row]) for row in kept]
    for name, parent, ns in zip(names, tree.parent.tolist(), lengths_ns, strict=True):
        if name in took_ns:
            took_ns[name] += ns
            wrong_ns += ns if parent < 0 or names[parent] != "turn" else 0
    total = sum(took_ns.values())
    found = {"share": took_ns["hot"] / total, "wrong": wrong_ns / total} if total else {}
    ticks = table.metadata.get("sampling", {})
    if "ticks" in ticks:
        found["missed"] = ticks["missed_ticks"] / (ticks["ticks"] + ticks["missed_ticks"])
    return found


def measure(name: str, rounds: int, seconds: float, folder: Path) -> list[dict[str, Any]]:
    """Return the rows of one program."""
    script = folder / "program.py"
    script.write_text(COMMON + PROGRAMS[name] + END)
    found: dict[str, list[dict[str, float]]] = {}
    too_slow: set[str] = set()
    for _ in range(rounds):
        order = [
            each for each in commands(script, seconds, folder).items() if each[0] not in too_slow
        ]
        random.shuffle(order)
        units = {}
        for sampler, (words, path) in order:
            try:
                printed = run(sampler, words, path, seconds)
            except subprocess.TimeoutExpired:
                too_slow.add(sampler)
                found.pop(sampler, None)
                continue
            units[sampler] = printed["units"]
            row = {} if sampler == "(none)" else read(path)
            if "share" in row:
                row["error"] = abs(row["share"] - printed["share"])
            found.setdefault(sampler, []).append(row)
        for sampler, done in units.items():
            found[sampler][-1]["slowdown"] = units["(none)"] / done
    rows: list[dict[str, Any]] = [
        {"program": name, "sampler": sampler, "hz": HZ, "slowdown": None}
        for sampler in sorted(too_slow)
    ]
    for sampler in sorted(set(found) - {"(none)"}):
        low, middle, high = statistics.quantiles([r["slowdown"] for r in found[sampler]], n=4)
        row = {"program": name, "sampler": sampler, "hz": HZ, "slowdown": round(middle, 3)}
        row["slowdown_quartiles"] = [round(low, 3), round(high, 3)]
        for key, label in (
            ("error", "share_error"),
            ("wrong", "wrong_callers"),
            ("missed", "missed"),
        ):
            values = [r[key] for r in found[sampler] if key in r]
            row[label] = round(max(values), 4) if values else None
        rows.append(row)
    return rows


def main() -> None:
    """Print a line a program and sampler; append rows to the file of --json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    for name in options.programs:
        if name == "torch" and not find_spec("torch"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for row in measure(name, options.rounds, options.seconds, Path(folder)):
                print(row, flush=True)
                if options.json:
                    with open(options.json, "a") as out:
                        out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
