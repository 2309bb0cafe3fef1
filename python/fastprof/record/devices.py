# SPDX-License-Identifier: Apache-2.0
"""Device plug-ins: accelerators whose work profiles record beside that of CUDA.

A plug-in is a shared library with the C interface of csrc/include/fastprof/device_plugin.h, or an object
of Python. Programs register them; installed packages do with an entry point, and users with the
environment.

    import fastprof

    fastprof.devices.register("libnpu_fastprof.so")
    with fastprof.profile(use_device="npu") as prof:
        train()
    print(prof.key_averages().table())
"""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from fastprof import _core
from fastprof.base import errors
from fastprof.record.activities import ProfilerActivity, as_activity
from fastprof.record.device_protocol import (
    NO_INDEX,
    ActivityType,
    ArgumentType,
    DeviceSink,
    PythonDevice,
)

__all__ = [
    "NO_INDEX",
    "ActivityType",
    "ArgumentType",
    "Device",
    "DeviceSink",
    "PythonDevice",
    "find",
    "refused",
    "register",
    "registered",
    "unregister",
]

_ENTRY_POINTS = "fastprof.devices"
_CHOSEN = "FASTPROF_DEVICE_PLUGINS"

# PyTorch's numbers of device types -> activity.
_ACTIVITIES = {
    12: ProfilerActivity.XPU,
    15: ProfilerActivity.HPU,
    19: ProfilerActivity.MTIA,
    20: ProfilerActivity.PrivateUse1,
}
_TYPES = {activity: number for number, activity in _ACTIVITIES.items()}
_NAMES = {activity.name.lower(): activity for activity in ProfilerActivity}


class Device(NamedTuple):
    """A registered plug-in. origin: path of its library, or the type of its object. device_type: PyTorch's
    number. has_stubs: whether the exclusive profiler can time its work. python: the object; None: a
    library."""

    name: str
    activity: ProfilerActivity
    origin: str
    device_type: int
    has_stubs: bool
    python: PythonDevice | None = None

    def problem(self) -> str | None:
        """Return why its work cannot be collected now; None if it can. Never raises."""
        if self.python is None:
            return _core.device_problem(self.name) or None
        try:
            reason = getattr(self.python, "problem", _nothing)()
        except Exception as error:
            return f"problem() of its plug-in raised {type(error).__name__}: {error}"
        return str(reason) if reason else None


_devices: dict[str, Device] = {}
_refused: dict[str, str] = {}
_lock = threading.RLock()  # entry points may register themselves
_installed_are_loaded = False


def register(device: str | os.PathLike[str] | PythonDevice) -> Device:
    """Register a plug-in for the rest of the process, and return what is known of it.

    device: path of a shared library, or an object as described by PythonDevice. Registering the same one
    again has no effect. Raises errors.UnavailableError if a library cannot be loaded or is no plug-in
    for this version, errors.ValueError if the plug-in is invalid or its name belongs to another. Any
    thread.
    """
    with _lock:
        made = _library(device) if isinstance(device, str | os.PathLike) else _object(device)
        if made.name in _NAMES and _NAMES[made.name] is not made.activity:
            raise errors.ValueError(
                f"the name {made.name!r} is that of an activity, and the device {made.origin} records "
                f"{made.activity.name}. Rename it."
            )
        known = _devices.get(made.name)
        if known is not None and (known.python is not made.python or known.origin != made.origin):
            raise errors.ValueError(
                f"there is a device named {made.name!r} already, from {known.origin}. Rename one, or call "
                f"fastprof.devices.unregister({made.name!r}) first."
            )
        return _devices.setdefault(made.name, made)


def unregister(name: str) -> None:
    """Make later profiles ignore a device; errors.ValueError if there is none of this name.

    Running profiles keep it. A library stays loaded, and can be registered again. Any thread.
    """
    with _lock:
        if _devices.pop(name, None) is None:
            raise errors.ValueError(
                f"there is no device named {name!r}: see fastprof.devices.registered()"
            )


def registered() -> tuple[Device, ...]:
    """Return all devices, in the order in which they were registered.

    The first call registers those of installed packages (entry points of the group `fastprof.devices`)
    and of FASTPROF_DEVICE_PLUGINS: paths of libraries, or module:attribute, separated by colons; an
    empty value turns installed ones off. One that is refused is warned of, and listed by refused().
    """
    global _installed_are_loaded
    with _lock:
        if not _installed_are_loaded:
            _installed_are_loaded = True
            _register_installed()
        return tuple(_devices.values())


def refused() -> dict[str, str]:
    """Return what could not be registered from entry points or the environment -> reason."""
    registered()
    return dict(_refused)


def find(name: str) -> Device | None:
    """Return the device of this name; None if there is none."""
    return next((device for device in registered() if device.name == name), None)


def _library(path: str | os.PathLike[str]) -> Device:
    # A name without a slash would be searched for in the loader's folders.
    where = os.path.abspath(os.fspath(path))
    if not os.path.exists(where):
        raise errors.UnavailableError(f"the device plug-in {where} does not exist")
    name, device_type, has_stubs = _core.load_device_plugin(where)
    return Device(name, _ACTIVITIES[device_type], where, device_type, has_stubs)


def _object(device: PythonDevice) -> Device:
    origin = f"{type(device).__module__}.{type(device).__qualname__}"
    lacking = [
        name for name in ("begin", "end", "abandon") if not callable(getattr(device, name, None))
    ]
    if lacking:
        raise errors.ValueError(
            f"the device {origin} lacks {', '.join(lacking)}: see fastprof.devices.PythonDevice"
        )
    name = getattr(device, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", name):
        raise errors.ValueError(
            f"the name of the device {origin} is {name!r}. Use a lower-case letter and up to 31 lower-case "
            "letters, digits or underscores."
        )
    if name in ("cpu", "cuda"):
        raise errors.ValueError(f"the name {name!r} belongs to fastprof. Use another.")
    activity = as_activity(getattr(device, "activity", ProfilerActivity.PrivateUse1))
    if activity not in _TYPES:
        allowed = ", ".join(sorted(a.name for a in _TYPES))
        raise errors.ValueError(
            f"the device {name!r} cannot record {activity.name}. Use {allowed}."
        )
    return Device(name, activity, origin, _TYPES[activity], has_stubs=False, python=device)


def _nothing() -> None:
    return None


def _unlock_in_child() -> None:
    """In a forked child, replace the lock: another thread of the parent may have held it."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_unlock_in_child)


def _register_installed() -> None:
    chosen = os.environ.get(_CHOSEN)
    if chosen == "":
        return
    for name, load in [*_of_packages(), *_of_environment(chosen or "")]:
        try:
            for device in _devices_of(load()):
                register(device)
        except Exception as error:  # whatever a package does, profiles go on
            _refused[name] = f"{type(error).__name__}: {error}"
            warnings.warn(f"the device plug-in {name} is not used: {error}", stacklevel=2)


def _devices_of(value: Any) -> list[Any]:
    """Return the devices that an entry point stands for: one, several, or a function that returns them."""
    if callable(value) and not hasattr(value, "begin"):
        value = value()
    elif isinstance(value, type):
        value = value()  # a class of devices
    if value is None:
        return []  # it has registered what it has
    return list(value) if isinstance(value, list | tuple) else [value]


def _of_environment(text: str) -> Iterator[tuple[str, Any]]:
    for entry in _entries(text):
        if os.sep in entry or ":" not in entry:
            yield entry, lambda path=entry: path
        else:
            yield entry, lambda name=entry: _attribute(name)


def _entries(text: str) -> list[str]:
    """Return the entries of FASTPROF_DEVICE_PLUGINS. module:attribute contains the separator, too."""
    parts = [part for part in text.split(os.pathsep) if part]
    entries: list[str] = []
    while parts:
        part = parts.pop(0)
        is_module = re.fullmatch(r"[A-Za-z_][\w.]*", part) is not None and not os.path.exists(part)
        if is_module and parts and re.fullmatch(r"[A-Za-z_][\w.]*", parts[0]):
            part = f"{part}:{parts.pop(0)}"
        entries.append(part)
    return entries


def _attribute(name: str) -> Any:
    module, _, attribute = name.partition(":")
    value: Any = import_module(module)
    for part in attribute.split("."):
        value = getattr(value, part)
    return value


def _of_packages() -> Iterator[tuple[str, Any]]:
    """Yield (name, function that loads it) of each entry point.

    importlib.metadata reads the entry points of all packages, which takes long where many are
    installed, so it is only asked if the text of one names the group.
    """
    if not any(map(_names_the_group, sys.path)):
        return
    from importlib.metadata import entry_points

    for entry in entry_points(group=_ENTRY_POINTS):
        yield f"{entry.name} = {entry.value}", entry.load


def _names_the_group(folder: str) -> bool:
    """Return whether a package in a folder of sys.path has a device plug-in.

    Every first profile asks, and hundreds of packages may be installed: by plain system calls, which take 3 us a
    package (importlib.metadata: 50 us).
    """
    group = f"[{_ENTRY_POINTS}]".encode()
    try:
        names = [n for n in os.listdir(folder or ".") if n.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return False  # a zip file, or nothing
    for name in names:
        try:
            file = os.open(f"{folder or '.'}/{name}/entry_points.txt", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if group in os.read(file, 1 << 20):
                return True
        finally:
            os.close(file)
    return False
