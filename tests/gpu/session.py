# SPDX-License-Identifier: Apache-2.0
"""Check fastprof on a machine with an NVIDIA GPU, beside torch.profiler, in one command: `make gpu-check`.

Needs no network and nothing but a Python with PyTorch; fastprof is imported, taken from --site, or built from this
tree. Each check runs in a process group of its own with a limit, and the results are on disk after each, in
OUT/gpu.json and at the end in OUT/gpu-<device>.json. Exit status: 0 if all is well, 1 if a check found a
fault, 2 if there is nothing to check here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from gpu_workloads import DOUBLE  # noqa: E402
from harness.rows import write_results  # noqa: E402


class Check(NamedTuple):
    """A check of gpu_programs.py or gpu_experiments.py.

    alone: not beside others, because it measures times. real: only on a real device, because it needs PyTorch there.
    """

    name: str
    limit_s: float = 60
    alone: bool = False
    real: bool = False


# By what is wrong if they fail. torch.profiler's come after ours where both use the same process.
CHECKS = (
    Check("facts", 120, True), Check("kernels", 60, True), Check("torch_profiler", 60, True),
    Check("launches_together", 60, True, True), Check("bandwidth", 60, True, True),
    Check("many_kernels", 60, True), Check("stamps"), Check("graphs"), Check("capture_between"),
    Check("torch_then_ours"),
    Check("ours_then_torch"), Check("ours_around_torch"), Check("torch_around_ours"), Check("driver_calls"),
    Check("teardown"), Check("other_client_inside"), Check("triton", 90),
    Check("jax_alone", 90), Check("traces", 90), Check("events_fallback"),
    Check("device_memory"), Check("eight_threads"), Check("cycles"), Check("memory_kinds"), Check("streams"),
    Check("arguments"), Check("whole_graphs"), Check("recorded_events"), Check("collectives", 90),
    Check("exit_while_recording"), Check("conflict"), Check("finalized"), Check("cupy", 90),
    Check("everyday_outputs", 120, real=True), Check("everyday_explained", 150, real=True),
    Check("everyday_compiled", 150, real=True), Check("everyday_job", 120, real=True),
    Check("everyday_children", 120, real=True), Check("everyday_interrupted", 100, real=True),
    Check("everyday_flight", 100, real=True), Check("ops_beside_torch", real=True),
    Check("memory_beside_torch", real=True), Check("slow_clock"), Check("sampled_beside_kernels", real=True),
)  # fmt: skip
_LONGEST_TEXT = 2000  # characters
MACHINE = (
    ["nvidia-smi"], ["uname", "-a"], ["g++", "--version"], ["nproc"],
    ["cat", "/sys/devices/system/clocksource/clocksource0/current_clocksource"], ["cat", "/proc/driver/nvidia/version"],
)  # fmt: skip


class Ended(NamedTuple):
    """How a command ended: its exit status or "timeout", its output, and the end of its errors."""

    status: int | str
    out: str
    err: str


def run_limited(command: list[str], limit_s: float, env: dict[str, str], log: Path) -> Ended:
    """Run a command in a process group of its own, in the folder of `log`, with its output in files.

    At the limit the group is aborted, so that faulthandler shows where it hangs, then killed. A process that cannot
    be killed, because it is inside the driver, is left behind.
    """
    out, err = log.with_suffix(".out"), log.with_suffix(".err")
    status: int | str = "timeout"
    with open(out, "wb") as o, open(err, "wb") as e:
        process = subprocess.Popen(
            command, stdout=o, stderr=e, stdin=subprocess.DEVNULL, env=env, cwd=log.parent, start_new_session=True
        )  # fmt: skip
        for limit, sign in ((limit_s, signal.SIGABRT), (3, signal.SIGKILL), (3, None)):
            try:
                ended = process.wait(limit)
                status = ended if limit == limit_s else status
                break
            except subprocess.TimeoutExpired:
                if sign is not None:
                    os.killpg(process.pid, sign)
    return Ended(status, out.read_text(errors="replace"), err.read_text(errors="replace")[-4000:])


def compare_kernels(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Return how the kernels of a profile differ from those of torch.profiler: names, counts, median times."""
    faults = []
    mine, other = ours.get("kernels", {}), theirs.get("kernels", {})
    for name in sorted(mine.keys() | other.keys()):
        count, _, us = mine.get(name, (0, 0.0, 0.0))
        other_count, _, other_us = other.get(name, (0, 0.0, 0.0))
        if count != other_count:
            faults.append(f"{name}: {count} times, torch.profiler says {other_count}")
        elif abs(us - other_us) > max(1.0, 0.15 * max(us, other_us)):
            faults.append(f"{name}: {us:.1f} us, torch.profiler says {other_us:.1f}")
    return faults


def _for_a_file(value: Any, folders: tuple[str, ...]) -> Any:
    """Return a result with paths relative to the machine's folders, and with long texts cut."""
    if isinstance(value, dict):
        return {key: _for_a_file(each, folders) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_for_a_file(each, folders) for each in value]
    if not isinstance(value, str):
        return value
    for folder in folders:
        value = value.replace(f"{folder}/", "")
    return value[:_LONGEST_TEXT]


def _facts(results: dict[str, Any], name: str) -> dict[str, Any]:
    facts: dict[str, Any] = results.get(name, {}).get("facts", {})
    return facts


class Session:
    """All checks on one machine, and the document with their results."""

    def __init__(self, out: Path, limit_s: float, work: Path) -> None:
        """out: folder of the results, made if missing. work: folder of the processes' files."""
        self.begin = time.monotonic()
        self.limit_s = limit_s
        self.out, self.work = out, work
        self.env = {
            **os.environ, "PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1", "FASTPROF_GPU_OUT": str(out),
        }  # fmt: skip
        self.document: dict[str, Any] = {
            "date": time.strftime("%Y-%m-%d"), "python": sys.version, "machine": {}, "checks": {},
        }  # fmt: skip
        self._lock = threading.Lock()
        out.mkdir(parents=True, exist_ok=True)

    def left_s(self) -> float:
        """Return the seconds left."""
        return self.limit_s - (time.monotonic() - self.begin)

    def save(self, name: str = "gpu.json") -> Path:
        """Write the document; a reader sees the old or the new one."""
        path = self.out / name
        new = path.with_suffix(".new")
        folders = (str(ROOT), sys.prefix, str(self.work))
        write_results(new, _for_a_file(self.document, folders))
        os.replace(new, path)
        return path

    def find_fastprof(self, site: Path | None) -> str | None:
        """Have fastprof importable: as it is, from `site`, or built here. Return why it is not."""
        tried = []
        for each in (site, None):
            if each is not None:
                self.env["PYTHONPATH"] = str(each.resolve())
            ended = run_limited(
                [sys.executable, "-c", "import fastprof; print(fastprof.__file__)"], 60, self.env, self.work / "import"
            )  # fmt: skip
            if ended.status == 0:
                self.document["fastprof"] = ended.out.strip()
                return None
            tried.append(ended.err[-500:])
            self.env.pop("PYTHONPATH", None)
        built = self.work / "site"
        print("fastprof cannot be imported; building it: minutes", flush=True)
        ended = run_limited(
            [sys.executable, "-m", "pip", "install", "--no-index", "--no-build-isolation", "--no-deps", "--no-compile",
             "--target", str(built), str(ROOT)], min(240, self.left_s()), self.env, self.work / "build",
        )  # fmt: skip
        self.document["build"] = ended._asdict()
        if ended.status != 0:
            return f"fastprof cannot be imported ({tried[-1]}) or built ({ended.err[-1500:] or ended.out[-1500:]})"
        self.env["PYTHONPATH"] = str(built)
        return None

    def note_machine(self) -> None:
        """Add what the machine is to the document."""
        for command in MACHINE:
            try:
                ended = run_limited(command, 20, self.env, self.work / "machine")
                text = (ended.out or ended.err)[:3000]
            except OSError as error:
                text = str(error)
            self.document["machine"][" ".join(command)[-40:]] = text

    def run(self, check: Check) -> None:
        """Run a check and add its result; a crash, a wrong exit status or a time-out is a fault."""
        folder = self.work / check.name
        folder.mkdir()
        begin = time.monotonic()
        if self.left_s() < 5:
            self._add(check, {"faults": [], "facts": {}, "skipped": "no time is left"})
            return
        if check.real and self.env.get(DOUBLE):
            self._add(check, {"faults": [], "facts": {}, "skipped": "the double has no PyTorch"})
            return
        ended = run_limited(
            [sys.executable, str(HERE / "gpu_programs.py"), check.name],
            min(check.limit_s, self.left_s()), self.env, folder / "log",
        )  # fmt: skip
        try:
            result: dict[str, Any] = json.loads(ended.out.splitlines()[-1])
        except (IndexError, ValueError):
            result = {"faults": ["printed no result"], "facts": {}}
        if ended.status != 0:
            result["faults"].append(f"exit status {ended.status}")
        if ended.err.strip():
            result["stderr"] = ended.err[-2500:]
        result["seconds"] = round(time.monotonic() - begin, 1)
        self._add(check, result)

    def _add(self, check: Check, result: dict[str, Any]) -> None:
        with self._lock:
            checks = self.document["checks"]
            checks[check.name] = result
            if check.name == "torch_profiler" and "skipped" not in result:
                result["faults"] += compare_kernels(_facts(checks, "kernels"), result["facts"])
            self.document["faults"] = sum(len(each["faults"]) for each in checks.values())
            self.save()
            state = "FAULT" if result["faults"] else "skipped" if "skipped" in result else "ok"
            print(f"{check.name:24} {state:8} {result.get('seconds', 0):6.1f} s", flush=True)
            for text in [*result["faults"], *([result["skipped"]] if "skipped" in result else [])]:
                print(f"    {text}", flush=True)

    def run_all(self, only: list[str] | None, side_by_side: int) -> None:
        """Run the checks that measure times one by one, then the others `side_by_side`."""
        chosen = [check for check in CHECKS if not only or check.name in only]
        for check in chosen:
            if check.alone:
                self.run(check)
        with ThreadPoolExecutor(side_by_side) as pool:
            list(pool.map(self.run, [check for check in chosen if not check.alone]))


def main(arguments: list[str]) -> int:
    """Run the program; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, prog="session.py")
    parser.add_argument(
        "--site", type=Path, help="folder with fastprof, built before for this Python"
    )
    results = ROOT / "benchmarks" / "results"
    parser.add_argument(
        "--out", type=Path, default=results, help="folder of the results (default: %(default)s)"
    )
    parser.add_argument(
        "--limit", type=float, default=420, help="seconds for all (default: %(default)s)"
    )
    parser.add_argument("--only", nargs="*", metavar="NAME", help="only these checks")
    parser.add_argument(
        "--side-by-side",
        type=int,
        default=4,
        help="checks at a time, of those that measure no times",
    )
    options = parser.parse_args(arguments)
    if unknown := {*(options.only or ())} - {check.name for check in CHECKS}:
        parser.error(f"there is no check {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="fastprof-gpu-", ignore_cleanup_errors=True) as folder:
        session = Session(options.out.resolve(), options.limit, Path(folder))
        if problem := session.find_fastprof(options.site):
            print(f"gpu-check: {problem}", file=sys.stderr)
            session.save()
            return 2
        ended = run_limited(
            [sys.executable, str(HERE / "gpu_programs.py"), "--reason"], 120, session.env, session.work / "reason"
        )  # fmt: skip
        if ended.status != 0:
            print(
                f"gpu-check: there is nothing to check here: {ended.out.strip() or ended.err}",
                file=sys.stderr,
            )
            return 2
        session.note_machine()
        session.save()
        session.run_all(options.only, options.side_by_side)
    document = session.document
    device = re.sub(
        r"[^a-z0-9]+",
        "-",
        str(_facts(document["checks"], "facts").get("device", "unknown")).lower(),
    )
    path = session.save(f"gpu-{device.strip('-')}.json")
    (session.out / "gpu.json").unlink()
    for name, ns in _facts(document["checks"], "launches_together").get("more_ns", {}).items():
        print(f"  a launch under {name}: {ns:.0f} ns more")
    print(f"{document['faults']} faults; written to {os.path.relpath(path)}")
    return 1 if document["faults"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
