# SPDX-License-Identifier: Apache-2.0
"""GPU work of processes that a profile follows, collected through the double of libcupti."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from followed_programs import followed, with_shards
from needs import NEEDS_CUPTI_HEADERS

import fastprof

pytestmark = [pytest.mark.integrations, NEEDS_CUPTI_HEADERS]

# What a process does on the device; `report_work` lists all work as (kernel, process of the range that launched it,
# range, process and name of the device's track, stream, call), and what must hold of links.
HEAD = """
import ctypes, multiprocessing, time
def gpu_work(name, stream=7, device=0):
    gpu = ctypes.CDLL(os.environ["FASTPROF_CUPTI_LIBRARY"])
    with record_function("range " + name):
        gpu.fake_launch(ctypes.c_char_p(name.encode()), device, stream, ctypes.c_uint64(2000))
both = [fastprof.ProfilerActivity.CPU, fastprof.ProfilerActivity.CUDA]
def report_work(prof, **more):
    table = prof.event_table
    track, site = table.column("track").tolist(), table.column("site").tolist()
    categories = table.sites.field("category")
    more["work"] = []
    if table.has("linked_correlation_id"):
        for row in range(len(table)):
            if categories[site[row]] != "kernel":
                continue
            launcher = int(table.column("linked_correlation_id")[row]) - 1
            more["work"].append([
                table.name(row), table.tracks[track[launcher]].pid, table.name(launcher),
                table.tracks[track[row]].pid, int(table.column("device_resource_id")[row]),
                int(table.start_ns[launcher]) <= int(table.start_ns[row]),
            ])
    more["kernels"] = sorted((e.name, k.name, k.device) for e in prof.events() for k in e.kernels)
    prof.export_chrome_trace(sys.argv[1] + ".chrome")
    prof.export_perfetto_trace(sys.argv[1] + ".pftrace")
    report(prof, **more)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield from with_shards(tmp_path)


def run(folder: Path, double: Path, body: str, **more: str) -> dict[str, Any]:
    return followed(folder, HEAD + body, FASTPROF_CUPTI_LIBRARY=str(double), **more)


def check_work(result: dict[str, Any], names: set[str]) -> dict[str, int]:
    """Each kernel once, launched by its own range in its own process; return name -> process."""
    work = {row[0]: row for row in result["work"]}
    assert set(work) == names and len(result["work"]) == len(names)
    devices = {}
    for name, launcher_pid, launcher, device_pid, _, ordered in result["work"]:
        assert launcher == "range " + name and ordered
        assert launcher_pid in {process["pid"] for process in result["processes"]}
        devices.setdefault(device_pid, launcher_pid)
        assert devices[device_pid] == launcher_pid  # a track's pid is of one process and device
    assert result["kernels"] == [["range " + name, name, 0] for name in sorted(names)]
    return {name: row[1] for name, row in work.items()}


# Short names: sockets of multiprocessing lie in the folder of the test, and their paths are limited to 108 bytes.
def test_spawned(folder: Path, double: Path) -> None:
    result = run(folder, double, """
CHILD = '''
import ctypes, os
from fastprof import record_function
gpu = ctypes.CDLL(os.environ["FASTPROF_CUPTI_LIBRARY"])
with record_function("range executed"):
    gpu.fake_launch(ctypes.c_char_p(b"executed"), 0, 7, ctypes.c_uint64(2000))
if os.environ.get("LEAVE"):
    os._exit(0)
'''
if __name__ == "__main__":
    with fastprof.profile(activities=both, follow_children=True) as prof:
        gpu_work("own")
        subprocess.run([sys.executable, "-c", CHILD], check=True)
        spawn = multiprocessing.get_context("spawn")
        children = [spawn.Process(target=gpu_work, args=(f"spawned{n}",), name=f"worker {n}")
                    for n in range(2)]
        for child in children: child.start()
        for child in children: child.join()
        child = multiprocessing.get_context("forkserver").Process(target=gpu_work, args=("served",))
        child.start(); child.join()
    report_work(prof)
""")  # fmt: skip
    assert result["missing"] == {}
    pids = check_work(result, {"own", "executed", "spawned0", "spawned1", "served"})
    assert len(set(pids.values())) == 5 and pids["own"] == result["pid"]
    # All used stream 7 of device 0: in traces, each process has a device of its own.
    assert len({row[3] for row in result["work"]}) == 5

    trace = json.loads((folder / "result.json.chrome").read_text())["traceEvents"]
    kernels = {e["name"]: e for e in trace if e.get("cat") == "kernel"}
    device_of = {row[0]: row[3] for row in result["work"]}
    assert {name: e["pid"] for name, e in kernels.items()} == device_of
    assert device_of["own"] == 0
    assert {e["tid"] for e in kernels.values()} == {7}
    assert {e["args"]["device"] for e in kernels.values()} == {0}
    calls = [e for e in trace if e.get("cat") == "cuda_runtime"]
    by_correlation = {e["args"]["correlation"]: e for e in calls}
    assert len(by_correlation) == len(calls) == 5  # each process counts from 1
    for name, kernel in kernels.items():
        call = by_correlation[kernel["args"]["correlation"]]
        assert call["pid"] == pids[name] and call["ts"] <= kernel["ts"]
    begins = {e["id"]: e["pid"] for e in trace if e["ph"] == "s" and e["cat"] == "ac2g"}
    ends = {e["id"]: e["pid"] for e in trace if e["ph"] == "f" and e["cat"] == "ac2g"}
    assert {ends[i]: begins[i] for i in ends} == {device_of[n]: pids[n] for n in pids}
    names = {e["pid"]: e["args"]["name"] for e in trace if e.get("name") == "process_name"}
    assert names[device_of["spawned1"]] == "worker 1"
    for path in ("result.json.chrome", "result.json.pftrace"):
        table = fastprof.load(folder / path)
        assert {"own", "executed", "served"} <= {table.name(i) for i in range(len(table))}


def test_a_process_that_still_runs_is_asked_for_its_work(folder: Path, double: Path) -> None:
    result = run(folder, double, """
def work(ready, leave):
    gpu_work("running")
    with record_function("open"):
        ready.set()
        leave.wait(60)
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ready, leave = context.Event(), context.Event()
    with fastprof.profile(activities=both, follow_children=True) as prof:
        child = context.Process(target=work, args=(ready, leave))
        child.start()
        ready.wait(60)
    leave.set(); child.join()
    report_work(prof, code=child.exitcode)
""")  # fmt: skip
    assert result["missing"] == {} and result["code"] == 0
    check_work(result, {"running"})
    (opened,) = [event for event in result["events"] if event[0] == "open"]
    assert not opened[4]  # not finished


def test_a_fork_amid_cupti_is_left_alone(folder: Path, double: Path) -> None:
    """A forked child of a process that uses CUPTI does not touch it, and its description says so."""
    result = run(folder, double, """
def work():
    with record_function("in fork"):
        pass
    with fastprof.profile(activities=[fastprof.ProfilerActivity.CPU]) as inner:
        with record_function("inner"):
            pass
    assert [e.name for e in inner.events()] == ["inner"]
if __name__ == "__main__":
    with fastprof.profile(activities=both, follow_children=True) as prof:
        gpu_work("before")
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start(); child.join()
        gpu_work("after")
    report_work(prof, code=child.exitcode)
""")  # fmt: skip
    assert result["code"] == 0 and result["missing"] == {}
    check_work(result, {"before", "after"})
    assert [e[0] for e in result["events"] if e[1] == result["processes"][1]["pid"]].count(
        "in fork"
    ) == 1
    own, forked = result["processes"]
    assert "devices" not in own and "forked child" in forked["devices"]


def test_loaders(folder: Path, double: Path) -> None:
    """Workers of a DataLoader, forked amid CUPTI: they load, the parent's work is complete."""
    pytest.importorskip("torch")
    result = run(folder, double, """
import torch
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, index):
        with record_function("load"):
            return torch.tensor(index)
if __name__ == "__main__":
    with fastprof.profile(activities=both, follow_children=True) as prof:
        seen = []
        for n, batch in enumerate(torch.utils.data.DataLoader(Numbers(), batch_size=2, num_workers=2)):
            gpu_work(f"step{n}")
            seen += batch.tolist()
    report_work(prof, seen=seen)
""")  # fmt: skip
    assert result["seen"] == list(range(8)) and result["missing"] == {}
    pids = check_work(result, {f"step{n}" for n in range(4)})
    assert set(pids.values()) == {result["pid"]}
    loads = [event for event in result["events"] if event[0] == "load"]
    assert len(loads) == 8 and result["pid"] not in {event[1] for event in loads}


def test_a_killed_profile_is_recovered_with_the_work_of_its_children(
    folder: Path, double: Path
) -> None:
    result = run(folder, double, """
if __name__ == "__main__":
    pid = os.fork()
    if pid == 0:
        fastprof.profile(activities=both, follow_children=True).start()
        child = multiprocessing.get_context("spawn").Process(target=gpu_work, args=("recovered",))
        child.start(); child.join()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    (place,) = [n for n in os.listdir(os.environ["TMPDIR"]) if n.startswith("fastprof-children-")]
    place = os.path.join(os.environ["TMPDIR"], place)
    table = fastprof.recover(place)
    import shutil; shutil.rmtree(place)
    categories = table.sites.field("category")
    work = [[table.name(r), table.name(int(table.column("linked_correlation_id")[r]) - 1)]
            for r in range(len(table)) if categories[table.column("site")[r]] == "kernel"]
    json.dump({"work": work}, open(sys.argv[1], "w"))
""")  # fmt: skip
    assert result["work"] == [["recovered", "range recovered"]]
