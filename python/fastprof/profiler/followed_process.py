# SPDX-License-Identifier: Apache-2.0
"""Follow child processes: start and end the recording (ChildRecording) of a followed process, and record its name.

A forked process starts its recording in a fork handler; a process that executes a program starts it in sitecustomize
(startup/). The shard can be read at any instant, so no orderly end is needed and the process may be killed. The
recording ends early when the profile stops or its process dies: a thread waits for that (EndWatch). While the profile
runs, that thread only saves the activities of devices.
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
from fastprof.profiler.recovery import process_facts, process_name
from fastprof.record import process_starts
from fastprof.record.own_descriptor import OwnDescriptor
from fastprof.record.python_calls import CallFilter
from fastprof.record.shard_folder import ShardFolder

__all__ = [
    "earlier_children",
    "follow_children",
    "is_followed",
    "options_for_children",
    "record_executed",
    "stop_following",
]

# Shards are compacted after this many process starts. Each shard reserves at least 2 MB.
_STARTS_PER_COMPACTION = 64

_UTIL, _SPAWN = "multiprocessing.util", "multiprocessing.spawn"

# Options that a followed process needs. The others concern results.
_RECORDING_OPTIONS = (
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
    "sample_hz",
)


def options_for_children(options: Options) -> dict[str, Any]:
    """Return the options for followed processes as a value that JSON can represent (ShardFolder.make writes it)."""
    from fastprof.base.native_numbers import OverflowPolicy

    chosen = {name: getattr(options, name) for name in _RECORDING_OPTIONS}
    if chosen["overflow"] == OverflowPolicy.SPILL_TO_FILE:  # a shard cannot be spilled
        chosen["overflow"] = OverflowPolicy.DROP_NEWEST
    calls = options.python_calls
    return {
        "version": __version__,
        "recording": {**chosen, "overflow": int(chosen["overflow"])},
        "python_calls": None if calls is None else asdict(calls),
        "devices": {name: list(types) for name, types in options.device_types.items()},
        "missing": sorted(options.missing),  # already reported by the profile
    }


def _options_from_json(given: dict[str, Any]) -> Options:
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


# State of this process. _for_children: (folder, options, reported `missing` keys) for the processes that it starts;
# None: they are not followed. _recording: this process's own recording, if it is itself followed.
_for_children: tuple[ShardFolder, Options, set[str]] | None = None
_recording: ChildRecording | None = None
_watch: EndWatch | None = None
_fifo_writer: OwnDescriptor | None = (
    None  # in the profile's own process: open while the profile runs
)
_starts_since_compaction = 0
_compacted: set[str] = set()
_fork_links: dict[
    int, int
] = {}  # id of a thread that is forking -> id of the flow arrow to its child
_name_hook_pending = False


class _HookOwner:
    """Owner of the after-fork hook: multiprocessing keeps a weak reference to the owner of each hook."""


_hook_owner = _HookOwner()


def follow_children(folder: ShardFolder, options: Options, links: int) -> None:
    """Record all processes that this one starts, until stop_following().

    links: 15 bits of the ids of flow arrows to them, distinct for each folder.
    """
    global _for_children, _fifo_writer
    known = set(options.missing)
    # First: from then on stop_following() undoes what follows.
    _for_children = (folder, _options_from_json(options_for_children(options)), known)
    _fifo_writer = OwnDescriptor(folder.hold())
    _begin(folder, _for_children[1], known, links)


def stop_following(folder: ShardFolder) -> None:
    """Undo follow_children(); the followed processes end their recordings.

    No effect if another folder is followed. May be called again, also after an interrupt.
    """
    global _for_children, _fifo_writer
    if _for_children is not None and _for_children[0] is not folder:
        return
    process_starts.end()
    _cancel_name_hook()
    if _fifo_writer is not None:
        _fifo_writer.close()
    _fifo_writer = None
    _for_children = None  # last: from then on another profile may follow children


def is_followed() -> bool:
    """Return whether processes that this one starts are followed, by its own profile or its parent's."""
    return _for_children is not None


def earlier_children() -> list[str]:
    """Return the names of multiprocessing's processes that this one has started and that still run."""
    process: Any = sys.modules.get("multiprocessing.process")
    if process is None:
        return []
    children = list(getattr(process, "_children", ()))  # active_children() would also reap them
    own = [each for each in children if getattr(each, "_parent_pid", None) == os.getpid()]
    return sorted(_name_of(each) for each in own if each.is_alive())


def _name_of(process: Any) -> str:
    try:
        return str(process.name)
    except Exception:  # a property of the program's class
        return f"process {process.pid}"


def _begin(folder: ShardFolder, options: Options, known: set[str], links: int) -> None:
    global _for_children
    _for_children = (folder, options, known)
    process_starts.begin(folder.path, links, _count_start)
    _register_once()


def record_executed(path: str) -> None:
    """Start recording in a process that executes a program; called by startup/sitecustomize.py.

    path: the shard folder.
    """
    folder = ShardFolder(path)
    asked = folder.options()
    if asked is None:
        return
    arguments = " ".join(getattr(sys, "orig_argv", sys.argv))
    if "multiprocessing.resource_tracker" in arguments:
        return  # a helper process of multiprocessing, which runs no code of the program
    if asked["version"] != __version__:
        folder.note(
            f"not recorded: this process has fastprof version {__version__}, the profile {asked['version']}."
            " Install one version for both"
        )
        return
    options = _options_from_json(asked)
    _begin(folder, options, set(asked["missing"]), asked["links"])
    own = options
    if "multiprocessing.forkserver" in arguments:
        # CUDA must not be initialised here, or the processes that this server forks could not use it.
        own = replace(options, device_types={})
    if "--multiprocessing-fork" in arguments:
        after_import(_SPAWN, _record_spawned_name)
    link = process_starts.Followed(path, asked["links"]).link_of(os.getpid())
    _start_recording(process_facts(), link, own)


def _start_recording(
    facts: list[tuple[str, str]], link: int | None, executed: Options | None = None
) -> None:
    """Start this process's own recording and the EndWatch that ends it.

    facts: metadata of the process. link: id of the flow arrow that ends here. executed: options of a process that
    executes a program; None: the process was forked and records with the options for its children.
    """
    global _recording, _watch
    if _for_children is None:
        return
    folder, options, known = _for_children
    options = executed or options
    descriptor = folder.reader()
    if descriptor is None:  # the profile has ended
        _end_recording()
        return
    own = ChildRecording(folder, options, set(known), forked=executed is None)
    try:
        own.start(facts)
    except Exception as error:
        os.close(descriptor)
        folder.note(f"not recorded: {error}")
        return
    _recording = own
    if link is not None:
        _core.flow_end(link, process_starts.LINK_NAME)
    _hook_names_on_import()
    save = own.save_activities if own.collects_devices else None
    _watch = EndWatch(OwnDescriptor(descriptor), _end_recording, save)
    _watch.begin()


def _end_at_exit(pid: int) -> None:
    own = _recording
    if own is not None and os.getpid() == pid:
        own.end()


def _end_recording() -> None:
    """End this process's recording and stop following its children. Any thread."""
    global _recording, _for_children, _watch
    own, _recording, _for_children, _watch = _recording, None, None, None
    process_starts.end()
    if own is not None:
        own.end()


# ---- names of multiprocessing's process objects ------------------------------------------------


def _hook_names_on_import() -> None:
    """Install the after-fork hook _after_multiprocessing_fork as soon as multiprocessing is imported."""
    global _name_hook_pending
    if not _name_hook_pending:
        _name_hook_pending = True
        after_import(_UTIL, _register_name_hook)


def _register_name_hook() -> None:
    util: Any = sys.modules[_UTIL]
    util.register_after_fork(_hook_owner, _after_multiprocessing_fork)


def _cancel_name_hook() -> None:
    global _name_hook_pending
    if _name_hook_pending and _UTIL not in sys.modules:
        forget_import(_UTIL, _register_name_hook)
        _name_hook_pending = False


def _after_multiprocessing_fork(_: Any) -> None:
    """Record the process's name, and end its recording at exit.

    Processes of multiprocessing leave by os._exit(), which does not call atexit's functions.
    """
    _record_process_name()
    if _recording is not None and _recording.collects_devices:
        util: Any = sys.modules[_UTIL]
        # After the program's own finalizers, which have higher priorities.
        util.Finalize(None, _end_at_exit, args=(os.getpid(),), exitpriority=-1000)


def _record_process_name() -> None:
    name = process_name()
    if _recording is not None and name is not None:
        _recording.add_fact("name", name)


def _record_spawned_name() -> None:
    """Record the name of a spawned process, which runs no after-fork hooks: spawn.prepare() sets the name."""
    spawn: Any = sys.modules[_SPAWN]
    prepare = spawn.prepare

    @functools.wraps(prepare)
    def prepare_and_record_name(data: Any) -> None:
        spawn.prepare = prepare
        prepare(data)
        _record_process_name()

    spawn.prepare = prepare_and_record_name


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
    _hook_names_on_import()


def _before_fork() -> None:
    following = process_starts.followed()
    if following is None or process_starts.is_executing():
        return
    if _watch is not None:
        _watch.pause()
    link = _fork_links[threading.get_ident()] = following.next_fork()
    _core.flow_begin(link, process_starts.LINK_NAME)


def _count_start() -> None:
    """Count the start of a process; after _STARTS_PER_COMPACTION of them, compact the shards of ended processes.

    Compaction takes 0.5 ms a shard.
    """
    global _starts_since_compaction
    _starts_since_compaction += 1
    if _starts_since_compaction >= _STARTS_PER_COMPACTION and _for_children is not None:
        _starts_since_compaction = 0
        with contextlib.suppress(OSError):  # the folder is gone: the profile has ended
            _for_children[0].compact(_compacted)


def _after_fork_in_parent() -> None:
    _count_start()
    if _fork_links.pop(threading.get_ident(), None) is not None and _watch is not None:
        _watch.begin()


def _after_fork_in_child() -> None:
    global _recording, _watch, _fifo_writer
    link = _fork_links.get(threading.get_ident())
    _fork_links.clear()
    _recording = None  # the parent's
    if _watch is not None:
        _watch.close()
        _watch = None
    if _fifo_writer is not None:  # left open, it would signal that the profile still runs
        _fifo_writer.close()
        _fifo_writer = None
    if _for_children is None or process_starts.is_executing():
        return
    facts = [(key, value) for key, value in process_facts() if key != "name"]
    _start_recording(facts, link)
