# SPDX-License-Identifier: Apache-2.0
"""The Metal backend as it is built on macOS, on a double of Apple's frameworks, from C++ and from Python."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import metal_double
import pytest

pytestmark = pytest.mark.compilers


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the backend and its double as a library."""
    metal_double.need()
    return metal_double.build_library(tmp_path_factory.mktemp("metal"))


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_backend_checks(sanitizer: str, tmp_path: Path) -> None:
    metal_double.need(sanitizer)
    program = metal_double.build_program(tmp_path, sanitizer=sanitizer)
    # libobjc and GNUstep keep their tables until the process ends, and take their locks in more than one order.
    suppressions = tmp_path / "suppressions"
    suppressions.write_text("deadlock:libobjc.so\ndeadlock:libgnustep-base.so\n")
    done = subprocess.run(
        [str(program)],
        cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False,
        env={
            **os.environ,
            "ASAN_OPTIONS": "detect_leaks=0",
            "TSAN_OPTIONS": f"suppressions={suppressions}",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^9 passed, 0 failed$", done.stdout, re.M), done.stdout


def test_the_example_runs_on_the_double(tmp_path: Path) -> None:
    metal_double.need()
    program = metal_double.build_example(tmp_path)
    done = subprocess.run(
        [str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "double_all" in done.stdout and "step" in done.stdout
    assert (tmp_path / "metal_compute.json").exists()
    assert " MPS Operations Profiling: 0 graphs, 1 kernels " in done.stderr


def test_command_buffers_are_in_profiles_below_their_ranges(double: Path, tmp_path: Path) -> None:
    program = """
assert ProfilerActivity.MPS in fastprof.supported_activities()
run_ms(5)
commit(b"before")
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.MPS]) as prof:
    with record_function("step"):
        commit(b"training", False)
    thread = threading.Thread(target=commit, args=(b"elsewhere",))
    thread.start(); thread.join()
commit(b"after")
table = prof.table if hasattr(prof, "table") else prof._table()
names = [e.name for e in prof.events()]
device = {e.name: [str(e.device_type), e.device_time_total if hasattr(e, "device_time_total") else 0,
                   e.time_range.elapsed_us()] for e in prof.events() if str(e.device_type) == "DeviceType.MPS"}
step = next(e for e in prof.events() if e.name == "step")
prof.export_chrome_trace("trace.json")
prof.export_perfetto_trace("trace.pftrace")
text = prof.key_averages().table()
trace = json.load(open("trace.json"))
work = [e for e in trace["traceEvents"] if e.get("name") == "training"]
print(json.dumps({"names": names, "device": device, "kernels": [k.name for k in step.kernels],
                  "step_device_us": step.device_time_total, "use_device": prof.use_device,
                  "work": work, "text": text, "missing": list(prof.missing)}))
"""
    found, _ = metal_double.run(double, program, tmp_path)
    assert set(found["device"]) == {"training", "elsewhere"}
    assert 5000 <= found["device"]["training"][2] < 500_000  # the double runs for 5 ms at least
    assert found["kernels"] == ["training"]
    assert found["step_device_us"] >= 5000
    assert found["names"].count("MTLCommandBuffer commit") == 2
    assert found["use_device"] == "mps"
    assert found["missing"] == []
    (work,) = found["work"]
    assert work["cat"] == "kernel" and work["dur"] >= 5000
    assert work["args"]["queue"] == 1
    assert "MPS" in found["text"]


def test_signposts_statistics_and_captures(double: Path, tmp_path: Path) -> None:
    program = """
from fastprof import metal
assert metal.is_metal_capture_enabled() and not metal.is_capturing_metal()
commit(b"before")
take_log()
with metal.profile("interval,event", wait_until_completed=True):
    commit(b"traced", False)  # waits all the same
    log = take_log()
    try:
        metal.start()
    except fastprof.errors.StateError as error:
        twice = str(error)
with metal.emit_signposts():
    with record_function("annotated"):
        pass
ranges = take_log()
with record_function("not annotated"):
    pass
commit(b"after")
try:
    metal.start("intervals")
except fastprof.errors.ValueError as error:
    wrong = str(error)
silent = take_log()
with metal.metal_capture("step") as path:
    commit(b"captured", False)
captured = os.path.isdir(path)
metal.set_log_options(metal.LogOptions.OPERATION_STATS)
assert metal.log_options() == metal.LogOptions.OPERATION_STATS
commit(b"summed"); commit(b"summed", False)
sums = metal.statistics()
print(json.dumps({"log": log, "silent": silent, "ranges": ranges, "twice": twice, "wrong": wrong,
                  "path": path, "captured": captured,
                  "sums": [[o.name, o.run_count, o.completed_count, o.mean_gpu_ms > 0] for o in sums.operations],
                  "copies": [c.kind for c in sums.copies], "table": metal.tables()}))
"""
    found, errors = metal_double.run(double, program, tmp_path)
    log = "\n".join(found["log"])
    assert re.search(r"Intervals begin \d+ Metal operation: traced \(id=K1, run=1\)", log)
    assert re.search(r"Events event \d+ Metal operation: traced \(id=K1, run=1\) \[GPU=", log)
    assert re.search(r"Intervals end \d+ Metal operation", log)
    begin, end = found["ranges"]
    assert re.fullmatch(r"Intervals begin \d+ Range: annotated", begin)
    assert re.fullmatch(r"Intervals end \d+ Range", end)
    assert found["silent"] == []
    assert "stop that trace first" in found["twice"]
    assert "use interval, event, or interval,event" in found["wrong"]
    assert found["path"] == "0000-step.gputrace" and found["captured"]
    assert found["sums"] == [["traced", 1, 1, True], ["summed", 2, 2, True]]
    assert found["copies"] == ["MPS to MPS", "MPS to CPU", "CPU to MPS"]
    assert " MPS Operations Profiling: 0 graphs, 2 kernels " in found["table"]
    assert "There are no copies logged for profiling" in found["table"]
    # At exit, once.
    assert errors.count(" MPS Operations Profiling: ") == 1


def test_the_environment_sets_options_and_an_interrupt_prints_tables(
    double: Path, tmp_path: Path
) -> None:
    program = """
import signal
# A shell starts what runs in its background with this signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
assert fastprof.metal.is_capturing_metal() is False  # looks at the environment
commit(b"labelled")
caught = 0
try:
    signal.raise_signal(signal.SIGINT)
    for _ in range(1000):
        pass
except KeyboardInterrupt:
    caught += 1
try:
    signal.raise_signal(signal.SIGINT)
    for _ in range(1000):
        pass
except KeyboardInterrupt:
    caught += 1
print(json.dumps(caught))
"""
    found, errors = metal_double.run(
        double, program, tmp_path,
        PYTORCH_MPS_LOG_PROFILE_INFO="0x11", FASTPROF_METAL_TRACE_SIGNPOSTS="USE_EVENTS,RUN_OPERATION",
    )  # fmt: skip
    assert found == 2
    assert re.search(r"^labelled \(id=K1, run=1\) \[GPU=\d+\.\d{3} ms\]$", errors, re.M)
    assert errors.count(" MPS Operations Profiling: ") == 1


def test_nested_profiles_forks_and_work_that_is_not_finished(double: Path, tmp_path: Path) -> None:
    program = """
import warnings
both = [ProfilerActivity.CPU, ProfilerActivity.MPS]
with profile(activities=both) as outer:
    commit(b"outer")
    with profile(activities=both) as inner:
        commit(b"inner")
    child = os.fork()
    if child == 0:
        os._exit(0 if ProfilerActivity.MPS not in fastprof.supported_activities() else 1)
    _, status = os.waitpid(child, 0)
def work(prof):
    return sorted(e.name for e in prof.events() if str(e.device_type) == "DeviceType.MPS")
with profile(activities=both, schedule=fastprof.schedule(wait=1, warmup=1, active=1)) as steps:
    for name in (b"waits", b"warms", b"active"):
        commit(name)
        steps.step()
print(json.dumps({"outer": work(outer), "inner": work(inner), "child": status, "steps": work(steps)}))
"""
    found, _ = metal_double.run(double, program, tmp_path)
    assert found["outer"] == ["inner", "outer"]
    assert found["inner"] == ["inner"]
    assert found["child"] == 0
    assert found["steps"] == ["active"]


def test_works_of_an_embedder_have_their_names_in_profiles_of_python(
    double: Path, tmp_path: Path
) -> None:
    """A library that has fastprof's headers alone calls begin and end functions of its own Profiler."""
    program = """
gpu.embedder_open(queue)
gpu.embedder_step()
both = [ProfilerActivity.CPU, ProfilerActivity.MPS]
with profile(activities=both) as prof:
    with record_function("step"):
        gpu.embedder_step()
    commit(b"elsewhere")
gpu.embedder_step()
work = {e.name: e for e in prof.events() if str(e.device_type) == "DeviceType.MPS"}
inside = next(e for e in prof.events() if e.name == "embedder step")
print(json.dumps({"work": sorted(work), "launched": [k.name for k in inside.kernels], "parent": inside.cpu_parent.name,
                  "rows": [e.name for e in prof.events() if e.name == "embedder step"],
                  "missing": list(prof.missing)}))
"""
    found, _ = metal_double.run(double, program, tmp_path)
    assert found["work"] == ["elsewhere", "scale, add, MPS to CPU", "sum"]
    assert found["launched"] == ["scale, add, MPS to CPU", "sum"]
    assert found["parent"] == "step"
    assert found["rows"] == ["embedder step"]
    assert found["missing"] == []


def test_traces_and_profiles_may_lie_in_each_other(double: Path, tmp_path: Path) -> None:
    program = """
from fastprof import metal
both = [ProfilerActivity.CPU, ProfilerActivity.MPS]
def names(prof):
    return sorted(e.name for e in prof.events() if str(e.device_type) == "DeviceType.MPS")
found = {}
with metal.profile("interval"):
    with profile(activities=both) as prof:
        commit(b"in both")
        with metal.emit_signposts(), record_function("range"):
            pass
    commit(b"in the trace")
    log = take_log()
found["outer trace"] = [names(prof), [line.split(": ")[1].split(" (")[0] for line in log if " begin " in line]]
with profile(activities=both) as prof:
    with metal.profile():
        commit(b"traced")
    commit(b"not traced")
log = take_log()
found["inner trace"] = [names(prof), [line.split(": ")[1].split(" (")[0] for line in log if " begin " in line]]
with profile(activities=both, schedule=fastprof.schedule(wait=1, warmup=0, active=1)) as prof:
    metal.start()
    commit(b"waits"); prof.step()
    commit(b"active")
    metal.stop()
    prof.step()
log = take_log()
found["schedule"] = [names(prof), [line.split(": ")[1].split(" (")[0] for line in log if " begin " in line]]
print(json.dumps(found))
"""
    found, _ = metal_double.run(double, program, tmp_path)
    assert found == {
        "outer trace": [["in both"], ["in both", "range", "in the trace"]],
        "inner trace": [["not traced", "traced"], ["traced"]],
        "schedule": [["active"], ["waits", "active"]],
    }


def test_an_exit_awaits_handlers_and_a_child_has_none(double: Path, tmp_path: Path) -> None:
    """The process ends while the GPU runs: the table has the work. A forked child prints nothing."""
    program = """
import subprocess
fastprof.metal.set_log_options(fastprof.metal.LogOptions.OPERATION_STATS)
run_ms(150)
commit(b"late", False)
child = os.fork()
if child == 0:
    try:
        fastprof.metal.statistics()
    except fastprof.errors.UnavailableError as error:
        os._exit(0 if "start the child with the method spawn" in str(error) else 2)
    os._exit(1)
print(json.dumps(os.waitpid(child, 0)[1]))
"""
    status, errors = metal_double.run(double, program, tmp_path)
    assert status == 0
    assert errors.count(" MPS Operations Profiling: ") == 1
    assert re.search(r"late", errors) and "had not completed" not in errors


def test_a_keyboard_interrupt_ends_trace_profile_and_block(double: Path, tmp_path: Path) -> None:
    program = """
import signal
from fastprof import metal
signal.signal(signal.SIGINT, signal.default_int_handler)
metal.set_log_options(metal.LogOptions.OPERATION_STATS)
both = [ProfilerActivity.CPU, ProfilerActivity.MPS]
try:
    with profile(activities=both) as prof, metal.profile("interval"), metal.emit_signposts():
        commit(b"before")
        signal.raise_signal(signal.SIGINT)
        for _ in range(1000):
            pass
        commit(b"never")
    caught = False
except KeyboardInterrupt:
    caught = True
names = sorted(e.name for e in prof.events() if str(e.device_type) == "DeviceType.MPS")
take_log()
commit(b"afterwards")
with record_function("afterwards"):
    pass
silent = [line for line in take_log() if "begin" in line or "event" in line]
with metal.profile(), metal.emit_signposts():  # both can begin again
    pass
print(json.dumps([caught, names, silent]))
"""
    found, errors = metal_double.run(double, program, tmp_path)
    assert found == [True, ["before"], []]
    assert errors.count(" MPS Operations Profiling: ") == 1
