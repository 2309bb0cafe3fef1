# SPDX-License-Identifier: Apache-2.0
"""fastprof doctor's checks on made-up machines: what is read of each, and the finding that follows."""

from __future__ import annotations

import errno
import importlib.metadata
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.cli import checks
from fastprof.cli.checks import Finding


class Machine:
    """What the checks see: files by path, and the answers of system calls, whose arguments are kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: dict[str, str] = {}
        self.answer: tuple[int, int] | Exception = (-1, errno.ENOSYS)
        self.calls: list[tuple[Any, ...]] = []
        self.cpus = 8
        monkeypatch.setattr(checks, "_read", lambda path: self.files.get(path, ""))
        monkeypatch.setattr(checks, "_syscall", self.call)
        monkeypatch.setattr(os, "cpu_count", lambda: 16)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(self.cpus)))

    def call(self, number: int, *arguments: Any) -> tuple[int, int]:
        self.calls.append((number, *arguments))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize(
    ("quota", "cpus", "ok", "text"),
    [
        ("", 8, True, "16, 8 usable:"),
        ("max 100000", 8, True, "16, 8 usable:"),
        ("150000 100000", 8, False, "16, 1 usable, limited to 1.5 by the control group:"),
        ("200000 100000", 8, True, "16, 2 usable, limited to 2 by the control group:"),
        ("50000 100000", 8, False, "16, 1 usable, limited to 0.5 by the control group:"),
        ("900000 100000", 8, True, "16, 8 usable, limited to 9 by the control group:"),
        ("900000 0", 8, True, "16, 8 usable:"),
        ("900000", 8, True, "16, 8 usable:"),
        ("", 1, False, "16, 1 usable: with one CPU"),
        ("", 2, True, "16, 2 usable: a helper thread"),
    ],
)
def test_cpus(machine: Machine, quota: str, cpus: int, ok: bool, text: str) -> None:
    machine.files["/sys/fs/cgroup/cpu.max"] = quota
    machine.cpus = cpus
    found = checks._cpus()
    assert found[:2] == ("CPUs", ok) and found.text.startswith(text)


STABLE = "processor: 0\nflags : fpu constant_tsc nonstop_tsc\nflags : fpu"


@pytest.mark.parametrize(
    ("name", "source", "cpuinfo", "ok", "text"),
    [
        ("x86_64", "tsc", STABLE, True, "rdtsc; the kernel uses tsc"),
        ("x86_64", "hpet", STABLE, True, "rdtsc; the kernel uses hpet"),
        ("x86_64", "", STABLE, True, "rdtsc; the kernel uses unknown"),
        ("x86_64", "kvm-clock", "", True, "rdtsc; the kernel uses kvm-clock"),
        ("x86_64", "tsc", "", True, "rdtsc; the kernel uses tsc"),
        ("x86_64", "hpet", "flags : constant_tsc", False, "the CPU lacks nonstop_tsc:"),
        ("x86_64", "hpet", "", False, "the CPU lacks constant_tsc and nonstop_tsc:"),
        ("aarch64", "arch_sys", "", True, "cntvct_el0; the kernel uses arch_sys"),
        ("riscv64", "tsc", STABLE, False, "riscv64 is not supported"),
    ],
)
def test_clock(machine: Machine, name: str, source: str, cpuinfo: str, ok: bool, text: str) -> None:
    path = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    machine.files |= {path: source, "/proc/cpuinfo": cpuinfo}
    found = checks._clock(name)
    assert found[:2] == ("clock", ok) and text in found.text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errno.EACCES, "no permission (perf_event_paranoid 2): run sysctl"),
        (errno.EPERM, "no permission (perf_event_paranoid 2): in a container"),
        (errno.ENOENT, "offers no hardware counters"),
        (errno.EOPNOTSUPP, "offers no hardware counters"),
        (errno.ENOSYS, "the kernel has no perf events"),
        (errno.EMFILE, os.strerror(errno.EMFILE)),
    ],
)
def test_perf_counters_that_are_refused(machine: Machine, error: int, text: str) -> None:
    machine.files["/proc/sys/kernel/perf_event_paranoid"] = "2"
    machine.answer = (-1, error)
    found = checks._perf_counters("x86_64")
    assert found[:2] == ("perf counters", False) and text in found.text


@pytest.mark.parametrize(
    ("setting", "ok", "text"),
    [
        ("", False, "not supported by the kernel"),
        ("always madvise [never]", False, "write madvise to /sys"),
        ("always [madvise] never", True, "madvise"),
        ("[always] madvise never", True, "always"),
    ],
)
def test_huge_pages(machine: Machine, setting: str, ok: bool, text: str) -> None:
    machine.files["/sys/kernel/mm/transparent_hugepage/enabled"] = setting
    found = checks._huge_pages()
    assert found[:2] == ("huge pages", ok) and text in found.text


def version_of(versions: dict[str, str]) -> Callable[[str], str]:
    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    return version


def test_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(name: str) -> object:
        if name == "polars":
            raise ValueError("polars.__spec__ is None")
        return None if name in ("torch", "tqdm") else object()

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    versions = {"numpy": "2.1", "scikit-learn": "1.5", "pandas": "2.2"}
    monkeypatch.setattr(importlib.metadata, "version", version_of(versions))
    assert list(checks.package_checks()) == [
        Finding("numpy", True, "2.1: results"),
        Finding("torch", False, "not installed: no PyTorch"),
        Finding("pandas", True, "2.2: to_pandas()"),
        Finding("polars", False, "not installed: no to_polars()"),
        Finding("pyarrow", True, "of unknown version: to_arrow()"),
        Finding("tqdm", False, "not installed: no progress of long exports"),
        Finding("sklearn", True, "1.5: the demo"),
    ]


def test_recording_that_fails_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("no memory")

    monkeypatch.setattr(fastprof, "profile", fail)
    first, package, python = checks.recording_check()
    assert first[:2] == ("recording", False)
    assert "not recorded: OSError: no memory. Reinstall" in first.text
    assert package.topic == "fastprof" and package.ok is None
    assert package.text == f"{fastprof.__version__} in {Path(fastprof.__file__).parent}"
    assert python.topic == "python" and python.ok is None


def test_recording_and_the_abi_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastprof.record import build_facts

    findings = checks.recording_check()
    assert [found[:2] for found in findings] == [
        ("recording", True),
        ("fastprof", None),
        ("python", None),
        ("libraries", True),
    ]
    facts = build_facts.build_facts()
    assert findings[0].text == (
        f"native part built with {facts.compiler}, ABI {facts.abi[0]}.{facts.abi[1]}"
    )

    class Others:
        compiler, abi, other_abi = facts.compiler, facts.abi, ["", "/lib/theirs.so"]

    monkeypatch.setattr(build_facts, "build_facts", Others)
    last = checks.recording_check()[-1]
    assert last[:2] == ("libraries", False)
    assert "not recorded: the executable, /lib/theirs.so. Rebuild them." in last.text


def test_a_range_that_is_read_back_wrong_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    class Profile(fastprof.profile):
        def events(self) -> Any:
            return super().events()[:0]

    monkeypatch.setattr(fastprof, "profile", Profile)
    (found,) = checks.recording_check()
    assert found[:2] == ("recording", False) and "read back as []" in found.text


def test_devices_of_plug_ins(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a plug-in records is recorded by it; one that is refused is a finding of its own."""
    from fastprof import ProfilerActivity
    from fastprof.record import devices

    class Chip:
        name, activity = "chip", ProfilerActivity.MTIA

        def begin(self, types: Any) -> int:
            return 0

        def end(self, collection: Any, sink: Any) -> None: ...

        def abandon(self, collection: Any) -> None: ...

    monkeypatch.setattr(devices, "_devices", {})
    monkeypatch.setattr(devices, "_installed_are_loaded", True)
    monkeypatch.setattr(devices, "_refused", {"other.so": "OSError: no such file"})
    fastprof.devices.register(Chip())
    found = {finding.topic: finding[1:] for finding in checks._gpus()}
    origin = f"{Chip.__module__}.{Chip.__qualname__}"
    assert found["MTIA"] == (True, f"recorded by the plug-in chip ({origin})")
    assert found["CPU"] == (True, "recorded")
    assert found["XPU"][0] is False
    assert found["device plug-in"] == (False, "other.so is not used: OSError: no such file")
