# SPDX-License-Identifier: Apache-2.0
"""Device plug-ins: the example of examples/device_plugin, in every way in which a program profiles."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from compilers import ROOT, need
from compilers import run as run_command
from device_plugins import EXAMPLE, build_toy, run
from processes import python

pytestmark = pytest.mark.compilers


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_toy(tmp_path_factory.mktemp("toy"))


def test_the_example_is_built_against_an_installed_package(tmp_path: Path) -> None:
    """Out of the tree: CMake finds the headers in a prefix, and the sources of fastprof are not used."""
    prefix, example = tmp_path / "prefix", tmp_path / "example"
    options = [f"-DFASTPROF_{part}=OFF" for part in ("BUILD_TESTS", "HEADER_CHECKS")]
    run_command([need("cmake"), "-S", ROOT, "-B", tmp_path / "install", *options])
    run_command(["cmake", "--install", tmp_path / "install", "--prefix", prefix])
    shutil.copytree(EXAMPLE, example)
    run_command(["cmake", "-S", example, "-B", example / "build", f"-DCMAKE_PREFIX_PATH={prefix}"])
    run_command(["cmake", "--build", example / "build"])
    assert str(prefix) in (example / "build" / "CMakeCache.txt").read_text()
    done = python("try_it.py", "build/libtoy_npu_fastprof.so", cwd=example, check=True)
    assert "activities: ['CPU', 'PrivateUse1']" in done.stdout
    assert "Self TOYNPU" in done.stdout and "matmul_16x16" in done.stdout
    assert json.loads((example / "toynpu.json").read_text())["traceEvents"]


def test_work_is_linked_to_the_range_that_launched_it(toy: Path, tmp_path: Path) -> None:
    seen = run(toy, """
npu = toy()
with profile(activities=both) as prof:
    with record_function("first"):
        npu.toy_npu_launch(b"gemm", 0, 3, 2000000)
    with record_function("second"):
        npu.toy_npu_launch(b"relu", 1, 0, 1000000); npu.toy_npu_copy(4096, 0, 3, 1000000)
table = prof.event_table
of = {table.name(r): r for c in ("kernel", "gpu_memcpy") for r in rows(table, c)}
print(json.dumps({
    "kernels": kernels(prof),
    "durations": {n: int(table.duration_ns[r]) for n, r in of.items()},
    "calls": [[table.name(r), table.name(table.column("parent")[r])]
              for r in rows(table, "privateuse1_runtime")],
    "types": sorted({int(table.column("device_type")[r]) for r in of.values()}),
    "tracks": sorted([t.device_kind, t.name, t.pid, t.tid] for t in table.tracks if t.device_kind),
    "after_call": all(table.start_ns[r] >= table.start_ns[c] for r, c in
                      zip(of.values(), rows(table, "privateuse1_runtime"))),
    "inside": all(table.start_ns[r] >= table.t0_ns for r in range(len(table))),
    "dropped": sum(table.dropped.values()), "missing": prof.missing, "use_device": prof.use_device,
}))
""", tmp_path)  # fmt: skip
    assert seen["kernels"] == [
        ["first", "gemm", 0], ["second", "copy host to device", 0], ["second", "relu", 1],
    ]  # fmt: skip
    # The device's clock has steps of 10 ns and is converted by a line.
    wanted = {"gemm": 2e6, "relu": 1e6, "copy host to device": 1e6}
    assert seen["durations"] == pytest.approx(wanted, rel=0.01)
    assert seen["calls"] == [
        ["toy_npu_launch", "first"], ["toy_npu_launch", "second"], ["toy_npu_copy", "second"],
    ]  # fmt: skip
    assert seen["types"] == [20] and seen["after_call"] and seen["inside"]
    assert seen["tracks"] == [["toynpu", "queue 0", 1, 0], ["toynpu", "queue 3", 0, 3]]
    assert (seen["dropped"], seen["missing"], seen["use_device"]) == (0, {}, "toynpu")


def test_tables_and_traces_name_the_device(toy: Path, tmp_path: Path) -> None:
    seen = run(toy, """
npu = toy()
with profile(use_device="toynpu", activities=[ProfilerActivity.CPU]) as prof:
    with record_function("range"):
        npu.toy_npu_launch(b"gemm", 1, 3, 1000); npu.toy_npu_copy(5000, 1, 3, 1000)
prof.export_chrome_trace("t.json"); prof.export_perfetto_trace("t.pftrace"); prof.export_html("t.html")
fastprof.save(prof.event_table, "t.fastprof")
import copy, pickle
def labels(p):
    p.export_chrome_trace("c.json")
    return sorted(e["args"]["labels"] for e in json.load(open("c.json"))["traceEvents"]
                  if e.get("name") == "process_labels")
averages = {a.key: a for a in prof.key_averages()}
loaded = fastprof.load("t.fastprof")
print(json.dumps({
    "table": prof.key_averages().table(sort_by="privateuse1_time_total"),
    "range": averages["range"].device_time_total, "gemm": averages["gemm"].self_device_time_total,
    "labels": [labels(prof), labels(copy.deepcopy(prof)), labels(pickle.loads(pickle.dumps(prof)))],
    "kept": [t.device_kind for t in loaded.tracks], "pf": b"toynpu 1" in open("t.pftrace", "rb").read(),
}))
""", tmp_path)  # fmt: skip
    assert "Self TOYNPU" in seen["table"] and "Self TOYNPU time total" in seen["table"]
    assert seen["range"] > seen["gemm"] > 0
    assert seen["labels"] == [["CPU", "toynpu 1"]] * 3
    assert seen["kept"] == ["", "toynpu"] and seen["pf"]
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    (kernel,) = [e for e in events if e.get("cat") == "kernel"]
    (copied,) = [e for e in events if e.get("cat") == "gpu_memcpy"]
    calls = [e for e in events if e.get("cat") == "privateuse1_runtime"]
    assert kernel["args"]["tile"] == [16, 16] and (kernel["pid"], kernel["tid"]) == (1, 3)
    assert kernel["args"]["correlation"] == calls[0]["args"]["correlation"] > 0
    assert kernel["args"]["device"] == 1 and kernel["args"]["stream"] == 3
    assert copied["args"]["bytes"] == 5000 and copied["args"]["memory bandwidth (GB/s)"] > 0
    arrows = [e for e in events if e.get("cat") == "ac2g"]
    assert sorted(e["ph"] for e in arrows) == ["f", "f", "s", "s"]


def test_doctor_and_supported_activities(toy: Path, tmp_path: Path) -> None:
    def doctor(**environment: str) -> str:
        done = python(
            "-c", "from fastprof.cli.checks import system_checks\n"
            "for finding in system_checks(): print(finding)", check=True, **environment,
        )  # fmt: skip
        return "\n".join(
            line for line in done.stdout.splitlines() if "PrivateUse1" in line or "plug-in" in line
        )

    assert "ok=False" in doctor() and "fastprof.devices.register" in doctor()
    used = doctor(FASTPROF_DEVICE_PLUGINS=str(toy))
    assert "ok=True" in used and "toynpu" in used and str(toy) in used
    off = doctor(FASTPROF_DEVICE_PLUGINS=str(toy), TOY_NPU_OFF="1")
    assert "ok=False" in off and "switched off by TOY_NPU_OFF" in off
    wrong = doctor(FASTPROF_DEVICE_PLUGINS=str(tmp_path / "nothing.so"))
    assert "does not exist" in wrong


def test_a_device_that_is_off_is_missing_and_costs_nothing_else(toy: Path, tmp_path: Path) -> None:
    seen = run(toy, """
warnings.simplefilter("ignore")
npu = toy()
with profile(activities=both) as prof:
    with record_function("range"):
        npu.toy_npu_launch(b"gemm", 0, 0, 1000)
print(json.dumps([[e.name for e in prof.events()], prof.missing["PrivateUse1"],
                  ProfilerActivity.PrivateUse1 in fastprof.supported_activities()]))
""", tmp_path, TOY_NPU_OFF="1")  # fmt: skip
    assert seen[0] == ["range"] and "TOY_NPU_OFF" in seen[1] and not seen[2]


def test_threads_and_many_activities(toy: Path, tmp_path: Path) -> None:
    """Each kernel has the range of its own launch, on the queue that its thread uses."""
    seen = run(toy, """
npu = toy()
THREADS, EACH = 4, 2500
def work(number):
    for i in range(EACH):
        with record_function(f"t{number}"):
            npu.toy_npu_launch(b"kernel", 0, number, 10)
with profile(activities=both) as prof:
    threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
    [t.start() for t in threads]; [t.join() for t in threads]
table = prof.event_table
linked, external = table.column("linked_correlation_id"), table.column("external_id")
row_of = {int(e): r for r, e in enumerate(external) if e}
found = rows(table, "kernel")
wrong = sum(table.name(row_of[int(linked[r])]) != f"t{int(table.column('device_resource_id')[r])}"
            for r in found)
print(json.dumps([len(found), wrong, len({int(linked[r]) for r in found}), sum(table.dropped.values())]))
""", tmp_path)  # fmt: skip
    assert seen == [10000, 0, 10000, 0]


def test_forks_children_and_an_exit_while_recording(toy: Path, tmp_path: Path) -> None:
    seen = run(toy, """
npu = toy()
prof = profile(activities=both, follow_children=True); prof.start()
npu.toy_npu_launch(b"mine", 0, 0, 1000)
child = os.fork()
if child == 0:
    warnings.simplefilter("ignore")
    with profile(activities=both) as own:
        with record_function("in child"):
            npu.toy_npu_launch(b"lost", 0, 0, 1000)
    good = [e.name for e in own.events()] == ["in child"] and "spawn" in own.missing["PrivateUse1"]
    os._exit(0 if good else 1)
status = os.waitpid(child, 0)[1]
npu.toy_npu_launch(b"mine", 0, 0, 1000)
prof.stop()
again = profile(activities=both); again.start()
npu.toy_npu_launch(b"mine", 0, 0, 1000)
print(json.dumps([status, [prof.event_table.name(r) for r in rows(prof.event_table, "kernel")]]))
sys.stdout.flush()
# The interpreter exits while the second profile records.
""", tmp_path)  # fmt: skip
    assert seen == [0, ["mine", "mine"]]


def test_the_exclusive_profiler_times_ranges(toy: Path, tmp_path: Path) -> None:
    seen = run(toy, """
import time
from fastprof import profiler_legacy
toy()
with profiler_legacy.profile(use_device="toynpu") as prof:
    begin = time.monotonic_ns()
    with record_function("outer"):
        with record_function("inner"):
            time.sleep(0.01)
    whole_us = (time.monotonic_ns() - begin) / 1000
events = {e.name: e for e in prof.function_events}
print(json.dumps([{n: [e.device_time, e.cpu_time] for n, e in events.items()},
                  [k.name for k in events["inner"].kernels], prof.key_averages().table(), whole_us]))
""", tmp_path)  # fmt: skip
    times, kernels, table, whole_us = seen
    assert set(times) == {"outer", "inner"} and kernels == ["inner"]
    for clock in (0, 1):  # the device's, which reads the host's in steps of 10 ns, and the host's
        assert 9_999 < times["inner"][clock] <= times["outer"][clock] < whole_us + 1
    assert "TOYNPU" in table


def test_entry_points_and_the_environment(toy: Path, tmp_path: Path) -> None:
    """An installed package brings a plug-in; the environment adds some, or turns all off."""
    package = tmp_path / "site"
    (package / "npu_fastprof-1.0.dist-info").mkdir(parents=True)
    info = package / "npu_fastprof-1.0.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: npu-fastprof\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[fastprof.devices]\ntoy = npu_fastprof:library\nbad = npu_fastprof:absent\n"
    )
    (package / "npu_fastprof.py").write_text(
        "import os\n\ndef library():\n    return os.environ['PLUGIN']\n\n\nclass Silent:\n"
        "    name = 'silent'\n    activity = 'XPU'\n\n    def begin(self, types):\n        return 1\n\n"
        "    def end(self, collection, sink):\n        pass\n\n    def abandon(self, collection):\n"
        "        pass\n"
    )
    program = """
warnings.simplefilter("ignore")
print(json.dumps([sorted(d.name for d in devices.registered()), sorted(devices.refused())]))
"""
    path = {"PYTHONPATH": str(package)}
    installed = run(toy, program, tmp_path, **path)
    assert installed == [["toynpu"], ["bad = npu_fastprof:absent"]]
    both = run(toy, program, tmp_path, FASTPROF_DEVICE_PLUGINS=f"npu_fastprof:Silent:{toy}", **path)
    assert both[0] == ["silent", "toynpu"]
    assert run(toy, program, tmp_path, FASTPROF_DEVICE_PLUGINS="", **path) == [[], []]
    assert run(toy, program, tmp_path) == [[], []]
