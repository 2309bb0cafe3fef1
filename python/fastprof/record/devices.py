# SPDX-License-Identifier: Apache-2.0
"""Device plug-ins: record the work of accelerators that fastprof does not support itself.

A plug-in is a shared library with the C interface of csrc/include/fastprof/device_plugin.h, or a Python
object (PythonDevice). It is registered by the program, by an entry point of an installed package, or by the
environment variable FASTPROF_DEVICE_PLUGINS.

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
_VARIABLE = "FASTPROF_DEVICE_PLUGINS"

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
    """A registered plug-in.

    origin: path of its library, or type of its object. device_type: PyTorch's number. has_stubs: whether
    the exclusive profiler can time its work. python: the Python object; None for a library.
    """

    name: str
    activity: ProfilerActivity
    origin: str
    device_type: int
    has_stubs: bool
    python: PythonDevice | None = None

    def problem(self) -> str | None:
        """Return why the device's work cannot be collected now; None if it can. Never raises. Any thread."""
        if self.python is None:
            return _core.device_problem(self.name) or None
        try:
            reason = getattr(self.python, "problem", lambda: None)()
        except Exception as error:
            return f"problem() of its plug-in raised {type(error).__name__}: {error}"
        return str(reason) if reason else None


_devices: dict[str, Device] = {}
_refused: dict[str, str] = {}
_lock = threading.RLock()  # reentrant: the function of an entry point may call register()
_installed_are_loaded = False
_loading = False  # by the thread that holds the lock
_tried: set[str] = set()  # entries that are registered or refused


def register(device: str | os.PathLike[str] | PythonDevice) -> Device:
    """Register a plug-in for the rest of the process and return its description.

    device: path of a shared library, or an object with the methods of PythonDevice. Registering the same
    plug-in again has no effect. Raises errors.UnavailableError if a library cannot be loaded or is not a
    plug-in for this version, errors.ValueError if the plug-in is invalid or another one has its name. Any
    thread.
    """
    with _lock:
        made = _library(device) if isinstance(device, str | os.PathLike) else _object(device)
        if made.name in _NAMES and _NAMES[made.name] is not made.activity:
            raise errors.ValueError(
                f"the device {made.origin} has the name of the activity {made.name!r} but records "
                f"{made.activity.name}. Rename the device."
            )
        known = _devices.get(made.name)
        if known is not None and (known.python is not made.python or known.origin != made.origin):
            raise errors.ValueError(
                f"there is already a device named {made.name!r}, from {known.origin}. Rename one, or call "
                f"fastprof.devices.unregister({made.name!r}) first."
            )
        return _devices.setdefault(made.name, made)


def unregister(name: str) -> None:
    """Remove a device from later profiles; errors.ValueError if no device has this name.

    Running profiles keep recording it. A library stays loaded and can be registered again. Any thread.
    """
    with _lock:
        if _devices.pop(name, None) is None:
            raise errors.ValueError(
                f"there is no device named {name!r}. fastprof.devices.registered() lists the devices."
            )


def registered() -> tuple[Device, ...]:
    """Return all devices, in the order in which they were registered.

    The first call also registers the plug-ins of installed packages (entry points of the group
    `fastprof.devices`) and of FASTPROF_DEVICE_PLUGINS: paths of libraries or module:attribute, separated by
    colons. An empty value disables both. A plug-in that cannot be registered causes a warning and is listed
    by refused(). Any thread.
    """
    global _installed_are_loaded, _loading
    with _lock:
        if not (_installed_are_loaded or _loading):
            _loading = True
            try:
                _register_installed()
                _installed_are_loaded = True
            finally:  # after an interrupt, the next call goes on
                _loading = False
        return tuple(_devices.values())


def refused() -> dict[str, str]:
    """Return the entry points and environment entries that could not be registered -> reason. Any thread."""
    registered()
    return dict(_refused)


def find(name: str) -> Device | None:
    """Return the device of this name; None if there is none. Any thread."""
    return next((device for device in registered() if device.name == name), None)


def _library(path: str | os.PathLike[str]) -> Device:
    # The loader searches its own folders for a name without a slash.
    where = os.path.abspath(os.fspath(path))
    if not os.path.exists(where):
        raise errors.UnavailableError(
            f"the device plug-in {where} does not exist. Pass the path of its shared library."
        )
    name, device_type, has_stubs = _core.load_device_plugin(where)
    return Device(name, _ACTIVITIES[device_type], where, device_type, has_stubs)


def _object(device: PythonDevice) -> Device:
    origin = f"{type(device).__module__}.{type(device).__qualname__}"
    lacking = [
        name for name in ("begin", "end", "abandon") if not callable(getattr(device, name, None))
    ]
    if lacking:
        raise errors.ValueError(
            f"the device {origin} lacks {', '.join(lacking)}. Implement fastprof.devices.PythonDevice."
        )
    name = getattr(device, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", name):
        raise errors.ValueError(
            f"the name of the device {origin} is {name!r}. Use a lower-case letter and up to 31 lower-case "
            "letters, digits or underscores."
        )
    if name in ("cpu", "cuda"):
        raise errors.ValueError(f"the device name {name!r} belongs to fastprof. Use another name.")
    activity = as_activity(getattr(device, "activity", ProfilerActivity.PrivateUse1))
    if activity not in _TYPES:
        allowed = ", ".join(sorted(a.name for a in _TYPES))
        raise errors.ValueError(
            f"the device {name!r} cannot record {activity.name}. Use {allowed}."
        )
    return Device(name, activity, origin, _TYPES[activity], has_stubs=False, python=device)


def _unlock_in_child() -> None:
    """In a forked child, replace the lock: another thread of the parent may have held it, and loaded plug-ins."""
    global _lock, _loading
    _lock = threading.RLock()
    _loading = False


os.register_at_fork(after_in_child=_unlock_in_child)


def _register_installed() -> None:
    text = os.environ.get(_VARIABLE)
    if text == "":
        return
    for name, load in [*_of_packages(), *_of_environment(text or "")]:
        if name in _tried:
            continue
        try:
            for device in _devices_of(load()):
                register(device)
        except Exception as error:  # a faulty package must not prevent profiles
            _refused[name] = f"{type(error).__name__}: {error}"
            warnings.warn(f"the device plug-in {name} is not used: {error}", stacklevel=2)
        _tried.add(name)


def _devices_of(value: Any) -> list[Any]:
    """Return the devices of an entry point's value: a device, a list, or a class or function that returns them."""
    if callable(value) and not hasattr(value, "begin"):
        value = value()
    elif isinstance(value, type):
        value = value()
    if value is None:
        return []  # the function called register() itself
    return list(value) if isinstance(value, list | tuple) else [value]


def _of_environment(text: str) -> Iterator[tuple[str, Any]]:
    for entry in _entries(text):
        if os.sep in entry or ":" not in entry:
            yield entry, lambda path=entry: path
        else:
            yield entry, lambda name=entry: _attribute(name)


def _entries(text: str) -> list[str]:
    """Split FASTPROF_DEVICE_PLUGINS at colons, but not the colon of module:attribute."""
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

    importlib.metadata parses the entry points of all packages, which is slow if many are installed. It is used
    only if some package's entry_points.txt contains the group. The first profile of every process looks, also beside
    busy threads, so hundreds of files are read without the GIL.
    """
    path: list[Any] = sys.path  # what is not text, imports ignore, too
    folders = [os.fsencode(folder or ".") for folder in path if isinstance(folder, str)]
    if not _core.packages_mention(folders, f"[{_ENTRY_POINTS}]"):
        return
    from importlib.metadata import entry_points

    for entry in entry_points(group=_ENTRY_POINTS):
        yield f"{entry.name} = {entry.value}", entry.load
