# SPDX-License-Identifier: Apache-2.0
"""Checks of `fastprof doctor`. Each returns findings and never raises."""

from __future__ import annotations

import ctypes
import errno
import importlib.metadata
import importlib.util
import os
import platform
import struct
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fastprof import __version__

__all__ = ["NO_DEVICE", "Finding", "package_checks", "recording_check", "system_checks"]

NO_DEVICE = "no device found"
# System call numbers of (membarrier, perf_event_open), from the kernel's table of each architecture.
_SYSCALLS = {"x86_64": (324, 298), "aarch64": (283, 241)}
_MEMBARRIER_PRIVATE_EXPEDITED = 1 << 3


class Finding(NamedTuple):
    """One line of the report. ok: True: works; False: does not, and the text says why; None: information."""

    topic: str
    ok: bool | None
    text: str


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def recording_check() -> list[Finding]:
    """Check that ranges are recorded, by recording one; report versions and ABI."""
    place = Path(__file__).resolve().parents[1]
    findings = [Finding("fastprof", None, f"{__version__} in {place}")]
    free_threaded = not getattr(sys, "_is_gil_enabled", lambda: True)()
    gil = ", free-threaded" if free_threaded else ""
    findings.append(
        Finding(
            "python", None, f"{platform.python_version()} {platform.python_implementation()}{gil}"
        )
    )
    try:
        from fastprof import profile, record_function
        from fastprof.record.build_facts import build_facts

        with profile() as result:
            with record_function("doctor"):
                pass
        seen = [event.name for event in result.events()]
        facts = build_facts()
    except Exception as error:
        text = f"ranges are not recorded: {type(error).__name__}: {error}. Reinstall fastprof."
        return [Finding("recording", False, text), *findings]
    text = f"native part built with {facts.compiler}, ABI {facts.abi[0]}.{facts.abi[1]}"
    if seen != ["doctor"]:
        return [Finding("recording", False, f"a test range was read back as {seen}; {text}")]
    findings.insert(0, Finding("recording", True, text))
    if facts.other_abi:
        names = ", ".join(path or "the executable" for path in facts.other_abi)
        text = f"ranges of libraries with another ABI of fastprof are not recorded: {names}"
        findings.append(Finding("libraries", False, f"{text}. Rebuild them."))
    else:
        findings.append(Finding("libraries", True, "none loaded with another ABI of fastprof"))
    return findings


def system_checks() -> Iterator[Finding]:
    """Check the features of the machine and the kernel that fastprof uses."""
    machine = platform.machine()
    yield Finding("system", None, f"{platform.system()} {platform.release()} on {machine}")
    yield _cpus()
    yield _clock(machine)
    yield _membarrier(machine)
    yield _perf_counters(machine)
    yield _huge_pages()
    yield from _gpus()
    yield from _injections()


def _injections() -> Iterator[Finding]:
    """Report which tools receive the ranges of NVTX and ITT, and whether fastprof can receive them."""
    from fastprof import _paths
    from fastprof.record.injection import ITT_VARIABLE, NVTX_VARIABLE, is_injection_library

    try:
        library = str(_paths.injection_library())
    except FileNotFoundError as error:
        for topic in ("NVTX", "ITT"):
            yield Finding(topic, False, f"ranges cannot be received: {error}")
        return
    for topic, variable, option in (
        ("NVTX", NVTX_VARIABLE, "--nvtx"),
        ("ITT", ITT_VARIABLE, "--itt"),
    ):
        tool = os.environ.get(variable, "")
        if not tool:
            text = f"ranges are received on request (fastprof run {option}), by {library}"
            yield Finding(topic, True, text)
        elif is_injection_library(tool):
            yield Finding(topic, True, f"ranges are received: {variable} is {tool}")
        elif os.path.exists(tool) and "libcupti" in os.path.basename(tool):
            text = f"CUPTI takes the ranges, and profiles of CUDA read its markers: {variable} is {tool}"
            yield Finding(topic, True, text)
        elif os.path.exists(tool):
            text = f"another tool takes the ranges: {variable} is {tool}. Unset it to receive them."
            yield Finding(topic, False, text)
        else:
            text = f"{variable} is {tool}, which does not exist. Correct or unset it."
            yield Finding(topic, False, text)


def _cpus() -> Finding:
    count = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else count
    quota = _read("/sys/fs/cgroup/cpu.max").split()
    limit = ""
    if len(quota) == 2 and quota[0].isdigit() and int(quota[1]) > 0:
        cpus = int(quota[0]) / int(quota[1])
        limit = f", limited to {cpus:g} by the control group"
        usable = min(usable, max(int(cpus), 1))
    text = f"{count}, {usable} usable{limit}"
    if usable > 1:
        return Finding("CPUs", True, f"{text}: a helper thread faults in memory for records")
    return Finding(
        "CPUs", False, f"{text}: with one CPU, recording threads take the page faults of new memory"
    )


def _clock(machine: str) -> Finding:
    if sys.platform == "darwin":
        slow = " of 24 MHz, by a slower path that keeps stamps distinct"
        return Finding("clock", True, f"mach time{slow if machine == 'arm64' else ', rdtsc'}")
    source = _read("/sys/devices/system/clocksource/clocksource0/current_clocksource") or "unknown"
    if machine == "aarch64":
        return Finding("clock", True, f"cntvct_el0; the kernel uses {source}")
    flags = next(
        (line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("flags")), ""
    ).split()
    wanted = ("constant_tsc", "nonstop_tsc")
    missing = [flag for flag in wanted if flag not in flags]
    text = f"rdtsc; the kernel uses {source}"
    if machine != "x86_64":
        return Finding("clock", False, f"{machine} is not supported; x86-64 and aarch64 are")
    if missing and source not in ("tsc", "kvm-clock"):
        return Finding(
            "clock",
            False,
            f"{text}, and the CPU lacks {' and '.join(missing)}: times may drift between "
            "calibrations; clock_error_ns in a trace's metadata is the bound",
        )
    return Finding("clock", True, text)


def _syscall(number: int, *args: object) -> tuple[int, int]:
    """Make a system call; return (result, errno)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    ctypes.set_errno(0)
    return int(libc.syscall(ctypes.c_long(number), *args)), ctypes.get_errno()


def _membarrier(machine: str) -> Finding:
    numbers = _SYSCALLS.get(machine)
    if sys.platform == "darwin":
        return Finding("membarrier", True, "the kernel stops each thread instead: stop is exact")
    if numbers is None or sys.platform != "linux":
        return Finding("membarrier", False, "not available here: stop waits briefly instead")
    try:
        commands, error = _syscall(numbers[0], ctypes.c_int(0), ctypes.c_int(0), ctypes.c_int(0))
    except (OSError, AttributeError) as failure:
        return Finding("membarrier", False, str(failure))
    if commands < 0:
        reason = os.strerror(error)
        return Finding("membarrier", False, f"{reason}: stop waits briefly and is not exact")
    if not commands & _MEMBARRIER_PRIVATE_EXPEDITED:
        return Finding("membarrier", False, "an exact stop requires Linux 4.14 or newer")
    return Finding("membarrier", True, "stop is exact")


def _perf_counters(machine: str) -> Finding:
    numbers = _SYSCALLS.get(machine)
    level = _read("/proc/sys/kernel/perf_event_paranoid")
    if numbers is None or not level:
        return Finding("perf counters", False, "the kernel has no perf events")
    # struct perf_event_attr: hardware event "instructions", user mode only.
    attributes = bytearray(128)
    struct.pack_into("<IIQ", attributes, 0, 0, 128, 1)
    struct.pack_into("<Q", attributes, 40, 1 << 5 | 1 << 6)
    buffer = (ctypes.c_char * 128).from_buffer(attributes)
    none = ctypes.c_ulong(0)
    here, anywhere = ctypes.c_int(0), ctypes.c_int(-1)
    try:
        fd, error = _syscall(numbers[1], buffer, here, anywhere, anywhere, none)
    except (OSError, AttributeError) as failure:
        return Finding("perf counters", False, str(failure))
    if fd >= 0:
        os.close(fd)
        return Finding("perf counters", True, f"hardware counters (perf_event_paranoid {level})")
    reasons = {
        errno.EACCES: f"no permission (perf_event_paranoid {level}): run sysctl kernel.perf_event_paranoid=1",
        errno.EPERM: f"no permission (perf_event_paranoid {level}): in a container, allow perf_event_open",
        errno.ENOENT: "this CPU, or the virtual machine, offers no hardware counters",
        errno.ENOSYS: "the kernel has no perf events",
        errno.EOPNOTSUPP: "this CPU, or the virtual machine, offers no hardware counters",
    }
    return Finding("perf counters", False, reasons.get(error, os.strerror(error)))


def _huge_pages() -> Finding:
    setting = _read("/sys/kernel/mm/transparent_hugepage/enabled")
    if not setting:
        return Finding("huge pages", False, "not supported by the kernel: more page faults")
    chosen = setting.partition("[")[2].partition("]")[0]
    if chosen == "never":
        return Finding(
            "huge pages",
            False,
            "disabled: write madvise to /sys/kernel/mm/transparent_hugepage/enabled",
        )
    return Finding("huge pages", True, chosen)


def _gpus() -> Iterator[Finding]:
    """Report for each kind of device whether one is present and whether this build records it."""
    try:
        from fastprof.record.activities import ProfilerActivity
        from fastprof.record.availability import missing_reason
        from fastprof.record.devices import refused, registered
        from fastprof.record.rocm import has_amd_driver, is_rocm

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is refused is reported below
            plugins = registered()
    except Exception as error:
        yield Finding("activities", False, str(error))
        return
    nvidia = _read("/proc/driver/nvidia/version").splitlines()
    cuda = nvidia[0] if nvidia else "a device" if Path("/dev/nvidiactl").exists() else ""
    if is_rocm() or (has_amd_driver() and not cuda):
        cuda = "AMD's driver (/dev/kfd)" if has_amd_driver() else ""
    here = {"CUDA": cuda, "HPU": "a Gaudi device" if Path("/dev/accel/accel0").exists() else ""}
    for activity in ProfilerActivity:
        reason = missing_reason(activity)
        device = here.get(activity.name, "")
        if reason is None:
            by = ", ".join(f"{p.name} ({p.origin})" for p in plugins if p.activity is activity)
            yield Finding(
                activity.name, True, f"recorded by the plug-in {by}" if by else "recorded"
            )
        else:
            found = f"{device} was found, but " if device else f"{NO_DEVICE}; "
            yield Finding(activity.name, False, found + reason)
    for name, reason in refused().items():
        yield Finding("device plug-in", False, f"{name} is not used: {reason}")


# Package -> its use in fastprof.
_PACKAGES = {
    "numpy": "results",
    "torch": "PyTorch",
    "pandas": "to_pandas()",
    "polars": "to_polars()",
    "pyarrow": "to_arrow()",
    "tqdm": "progress of long exports",
    "sklearn": "the demo",
}


def package_checks() -> Iterator[Finding]:
    """Report which optional packages are installed, without importing them in this process."""
    distributions = {"sklearn": "scikit-learn"}
    for name, use in _PACKAGES.items():
        try:
            found = importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            yield Finding(name, False, f"not installed: no {use}")
            continue
        try:
            version = importlib.metadata.version(distributions.get(name, name))
        except importlib.metadata.PackageNotFoundError:
            version = "of unknown version"
        if name == "torch":
            from fastprof.cli.torch_check import torch_findings

            yield from (Finding(name, ok, text) for ok, text in torch_findings(version))
        else:
            yield Finding(name, True, f"{version}: {use}")
