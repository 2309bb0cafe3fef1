# SPDX-License-Identifier: Apache-2.0
"""Following of child processes: when a recording (ChildRecording) starts in one, when it ends, its name.

A forked process starts it in a fork handler, one that executes a program in sitecustomize (startup/). The shard is
complete at any instant, so the recording needs no end: the process may be killed. It ends early when the profile
stops or dies, which a thread waits for (EndWatch); that thread runs no code while the profile runs, but to save what
devices did.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from dataclasses import asdict, replace
from typing import Any

from fastprof import _core
from fastprof._version import __version__
from fastprof.adapters.import_watch import after_import, forget_import
from fastprof.profiler.child_recording import ChildRecording
from fastprof.profiler.end_watch import EndWatch
from fastprof.profiler.options import Options
from fastprof.profiler.recovery import process_facts
from fastprof.record import process_starts
from fastprof.record.own_descriptor import OwnDescriptor
from fastprof.record.python_calls import CallFilter
from fastprof.record.shard_folder import ShardFolder

__all__ = [
    "follow_children",
    "is_followed",
    "options_for_children",
    "record_executed",
    "stop_following",
]

# A process reserves 2 MB at least; so many may wait for the next compaction.
_STARTS_OF_COMPACTION = 64

_NAMES, _SPAWN = "multiprocessing.util", "multiprocessing.spawn"

# Options that a process needs; what else a profile has concerns results.
_FIELDS = (
    "categories",
    "record_shapes",
    "profile_memory",
    "memory_attribution",
    "with_stack",
    "native",
    "with_flops",
    "with_modules",
    "all_threads",
    "max_bytes",
    "max_name_bytes",
    "overflow",
    "counters",
    "gc_events",
    "python_memory",
    "tasks",
)


def options_for_children(options: Options) -> dict[str, Any]:
    """Return the options that followed processes record with, for a file: numbers, texts, lists."""
    from fastprof.base.native_numbers import OverflowPolicy

    chosen = {name: getattr(options, name) for name in _FIELDS}
    if chosen["overflow"] == OverflowPolicy.SPILL_TO_FILE:  # a shard cannot be spilled
        chosen["overflow"] = OverflowPolicy.DROP_NEWEST
    calls = options.python_calls
    return {
        "version": __version__,
        "recording": {**chosen, "overflow": int(chosen["overflow"])},
        "python_calls": None if calls is None else asdict(calls),
        "devices": {name: list(types) for name, types in options.device_types.items()},
        "missing": sorted(options.missing),  # said by the profile already
    }


def _options_of(given: dict[str, Any]) -> Options:
    calls: dict[str, Any] | None = given["python_calls"]
    recording = given["recording"]
    return Options(
        activities=frozenset(),
        asked=frozenset(),
        filters={},
        use_device=None,
        acc_events=False,
        quiet=True,
        python_calls=None if calls is None else CallFilter(**calls),
        device_types={name: tuple(types) for name, types in given["devices"].items()},
        **{**recording, "counters": tuple(recording["counters"])},
    )


# This process: what its children are asked to do, and its own recording if it is a child itself.
_for_children: tuple[ShardFolder, Options, set[str]] | None = None
_own: ChildRecording | None = None
_watch: EndWatch | None = None
_held: OwnDescriptor | None = None  # of the profile's own process
_starts = 0  # of processes, since shards were compacted
_compacted: set[str] = set()
_fork_links: dict[int, int] = {}  # thread -> number of the arrow to the process that it forks
_names_awaited = False


class _Named:
    """What multiprocessing tells of a new process's name; lives as long as the module."""


_named = _Named()


def follow_children(folder: ShardFolder, options: Options, links: int) -> None:
    """Have all processes that this one starts record, until stop_following()."""
    global _for_children, _held
    _held = OwnDescriptor(folder.hold())
    _begin(folder, _options_of(options_for_children(options)), set(options.missing), links)


def stop_following() -> None:
    """Undo follow_children(): the followed processes end their recordings. May be called again."""
    global _for_children, _held
    process_starts.end()
    _for_children = None
    _stop_naming()
    held, _held = _held, None
    if held is not None:
        held.close()


def is_followed() -> bool:
    """Return whether processes that this one starts are followed, by its own profile or its parent's."""
    return _for_children is not None


def _begin(folder: ShardFolder, options: Options, known: set[str], links: int) -> None:
    global _for_children
    _for_children = (folder, options, known)
    process_starts.begin(folder.path, links, _started)
    _register_once()


def record_executed(path: str) -> None:
    """Start the recording of a process that executes a program; called by its sitecustomize."""
    folder = ShardFolder(path)
    asked = folder.options()
    if asked is None:
        return
    arguments = " ".join(getattr(sys, "orig_argv", sys.argv))
    if "multiprocessing.resource_tracker" in arguments:
        return  # serves the program's processes and does none of its work
    if asked["version"] != __version__:
        folder.note(
            f"not recorded: fastprof there has the version {__version__}, the profile {asked['version']}."
            " Install one version for both"
        )
        return
    options = _options_of(asked)
    _begin(folder, options, set(asked["missing"]), asked["links"])
    own = options
    if "multiprocessing.forkserver" in arguments:
        # The processes that it forks could not use a CUDA that had been used here.
        own = replace(options, device_types={})
    if "--multiprocessing-fork" in arguments:
        after_import(_SPAWN, _take_spawned_name)
    link = process_starts.Followed(path, asked["links"]).link_of(os.getpid())
    _record_here(process_facts(), link, own)


def _record_here(
    facts: list[tuple[str, str]], link: int | None, executed: Options | None = None
) -> None:
    """Start this process's own recording, and what ends it.

    executed: options of a process that executes a program; None: it was forked, and has its children's.
    """
    global _own, _watch
    if _for_children is None:
        return
    folder, options, known = _for_children
    options = executed or options
    descriptor = folder.reader()
    if descriptor is None:  # the profile has ended
        _end_here()
        return
    own = ChildRecording(folder, options, set(known), forked=executed is None)
    try:
        own.start(facts)
    except Exception as error:
        os.close(descriptor)
        folder.note(f"not recorded: {error}")
        return
    _own = own
    if link is not None:
        _core.flow_end(link, process_starts.LINK_NAME)
    _await_names()
    save = own.save_activities if own.collects_devices else None
    _watch = EndWatch(OwnDescriptor(descriptor), _end_here, save)
    _watch.begin()


def _at_exit_of_process(pid: int) -> None:
    own = _own
    if own is not None and os.getpid() == pid:
        own.end()


def _end_here() -> None:
    """End this process's recording, and follow its children no longer. Any thread."""
    global _own, _for_children, _watch
    own, _own, _for_children, _watch = _own, None, None, None
    process_starts.end()
    if own is not None:
        own.end()


# ---- names that multiprocessing gives ----------------------------------------------------------


def _await_names() -> None:
    """Have multiprocessing call _take_name_of_fork in each process that it makes, once it is loaded."""
    global _names_awaited
    if not _names_awaited:
        _names_awaited = True
        after_import(_NAMES, _ask_for_names)


def _ask_for_names() -> None:
    util: Any = sys.modules[_NAMES]
    util.register_after_fork(_named, _take_name_of_fork)


def _stop_naming() -> None:
    global _names_awaited
    if _names_awaited and _NAMES not in sys.modules:
        forget_import(_NAMES, _ask_for_names)
        _names_awaited = False


def _take_name_of_fork(_: Any) -> None:
    """Take the name, and end in time: such a process leaves by os._exit(), without atexit's functions."""
    _take_name()
    if _own is not None and _own.collects_devices:
        util: Any = sys.modules[_NAMES]
        # After the program's own finalizers, which have higher priorities.
        util.Finalize(None, _at_exit_of_process, args=(os.getpid(),), exitpriority=-1000)


def _take_name() -> None:
    process: Any = sys.modules.get("multiprocessing.process")
    if _own is not None and process is not None:
        _own.add_fact("name", str(process.current_process().name))


def _take_spawned_name() -> None:
    """A spawned process runs no after-fork functions; it gets its name from spawn.prepare()."""
    spawn: Any = sys.modules[_SPAWN]
    prepare = spawn.prepare

    @functools.wraps(prepare)
    def prepare_and_tell(data: Any) -> None:
        spawn.prepare = prepare
        prepare(data)
        _take_name()

    spawn.prepare = prepare_and_tell


# ---- fork --------------------------------------------------------------------------------------

_registered = False


def _register_once() -> None:
    global _registered
    if not _registered:
        _registered = True
        os.register_at_fork(
            before=_before_fork,
            after_in_parent=_after_fork_in_parent,
            after_in_child=_after_fork_in_child,
        )
    _await_names()


def _before_fork() -> None:
    following = process_starts.followed()
    if following is None or process_starts.is_executing():
        return
    if _watch is not None:
        _watch.pause()
    link = _fork_links[threading.get_ident()] = following.next_fork()
    _core.flow_begin(link, process_starts.LINK_NAME)


def _started() -> None:
    """Now and then compact the shards of processes that have ended: 0.5 ms for each."""
    global _starts
    _starts += 1
    if _starts >= _STARTS_OF_COMPACTION and _for_children is not None:
        _starts = 0
        with contextlib.suppress(OSError):  # the folder is gone: the profile has ended
            _for_children[0].compact(_compacted)


def _after_fork_in_parent() -> None:
    _started()
    if _fork_links.pop(threading.get_ident(), None) is not None and _watch is not None:
        _watch.begin()


def _after_fork_in_child() -> None:
    global _own, _watch, _held
    link = _fork_links.get(threading.get_ident())
    _fork_links.clear()
    _own = None  # the parent's
    if _watch is not None:
        _watch.close()
        _watch = None
    if _held is not None:  # else the profile would seem to run as long as this process
        _held.close()
        _held = None
    if _for_children is None or process_starts.is_executing():
        return
    facts = [(key, value) for key, value in process_facts() if key != "name"]
    _record_here(facts, link)
