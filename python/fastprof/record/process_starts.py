# SPDX-License-Identifier: Apache-2.0
"""Pass the shard folder on to the processes that this one starts, and record each start as a flow arrow.

A process that executes a program finds the folder in its environment: FASTPROF_FOLLOW is the path, and PYTHONPATH
begins with a folder whose sitecustomize.py starts the recording. A forked process has it in memory
(profiler/followed_process.py). The arrow leads from the start of a process to its first event.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastprof import _core

__all__ = ["LINK_NAME", "Followed", "begin", "end", "followed", "is_executing"]

LINK_NAME = "child process"
_FOLDER, _PATH = "FASTPROF_FOLLOW", "PYTHONPATH"
_STARTUP = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "profiler", "startup"
)

# Position of the environment among the arguments of _posixsubprocess.fork_exec and of os.posix_spawn.
_FORK_EXEC_ENV, _SPAWN_ENV = 5, 2


class Followed:
    """The shard folder for processes that start now, and the ids of the flow arrows to them.

    links: 15 bits, distinct for each folder. started: called after each start by executing a program.
    """

    def __init__(
        self, folder: str, links: int, started: Callable[[], object] = lambda: None
    ) -> None:
        self.folder = folder
        self.links = links
        self.started = started
        self._forks = 0

    def link_of(self, pid: int) -> int:
        """Return the id of the arrow to a process that executes a program; parent and child compute it from the pid."""
        return self.links << 48 | pid << 20

    def next_fork(self) -> int:
        """Return the id of the arrow to the next forked process, which inherits it in memory."""
        self._forks = self._forks % ((1 << 20) - 1) + 1
        return self.links << 48 | os.getpid() << 20 | self._forks


_followed: Followed | None = None
_executing = threading.local()
_replaced: list[tuple[Any, str, Any, Any]] = []  # module, name, original, replacement


def followed() -> Followed | None:
    """Return the Followed of begin(); None if processes are not followed."""
    return _followed


def is_executing() -> bool:
    """Return whether this thread is forking only to execute a program at once, as subprocess does."""
    return getattr(_executing, "now", False)


def begin(folder: str, links: int, started: Callable[[], object]) -> None:
    """Let processes that start from now on record into a folder; parameters are those of Followed.

    Changes os.environ, and replaces the functions with which Python executes programs.
    """
    global _followed
    _followed = Followed(folder, links, started)
    os.environ[_FOLDER] = folder
    path = os.environ.get(_PATH)
    if path is None or path.split(os.pathsep)[0] != _STARTUP:
        os.environ[_PATH] = _STARTUP if not path else _STARTUP + os.pathsep + path
    if not _replaced:
        import _posixsubprocess  # what subprocess and multiprocessing execute programs with

        _replace(_posixsubprocess, "fork_exec", _FORK_EXEC_ENV)
        for name in ("posix_spawn", "posix_spawnp"):
            if hasattr(os, name):
                _replace(os, name, _SPAWN_ENV)


def end() -> None:
    """Undo begin(). Has no effect when called again."""
    global _followed
    _followed = None
    os.environ.pop(_FOLDER, None)
    entries = os.environ.get(_PATH, "").split(os.pathsep)
    if entries[0] == _STARTUP:
        if len(entries) > 1:
            os.environ[_PATH] = os.pathsep.join(entries[1:])
        else:
            del os.environ[_PATH]
    while _replaced:
        module, name, original, replacement = _replaced[-1]
        subprocess = sys.modules.get(
            "subprocess"
        )  # it imports the functions under names of its own
        for holder, attribute in ((module, name), (subprocess, f"_{name}")):
            if getattr(holder, attribute, None) is replacement:
                setattr(holder, attribute, original)
        _replaced.pop()


def _replace(module: Any, name: str, environment_at: int) -> None:
    original = getattr(module, name)
    replacement = _recorded(original, environment_at)
    _replaced.append((module, name, original, replacement))
    setattr(module, name, replacement)
    subprocess = sys.modules.get("subprocess")
    if getattr(subprocess, f"_{name}", None) is original:
        setattr(subprocess, f"_{name}", replacement)


def _recorded(original: Callable[..., int], environment_at: int) -> Callable[..., int]:
    """Wrap a function that starts a process and returns its pid; inactive once nothing is followed."""

    @functools.wraps(original)
    def start_process(*args: Any, **kwargs: Any) -> int:
        following = _followed
        if following is None:
            return original(*args, **kwargs)
        if len(args) > environment_at:
            given = with_folder(args[environment_at], following.folder)
            args = (*args[:environment_at], given, *args[environment_at + 1 :])
        _executing.now = True
        try:
            pid = original(*args, **kwargs)
        finally:
            _executing.now = False
        if pid > 0:
            _core.flow_begin(following.link_of(pid), LINK_NAME)
            following.started()
        return pid

    return start_process


def with_folder(environment: Any, folder: str) -> Any:
    """Return an environment for a new process with our two variables added if the program left them out.

    environment: a mapping, or a sequence of b"NAME=value". None, which means this process's, is returned unchanged.
    """
    if isinstance(environment, Mapping):
        texts = {os.fsencode(key): os.fsencode(value) for key, value in environment.items()}
        return texts if _add(texts, folder) else environment
    if not isinstance(environment, Sequence):
        return environment
    texts = dict(entry.partition(b"=")[::2] for entry in environment)
    return (
        [key + b"=" + value for key, value in texts.items()] if _add(texts, folder) else environment
    )


def _add(texts: dict[bytes, bytes], folder: str) -> bool:
    if texts.get(_FOLDER.encode()) == os.fsencode(folder):
        return False
    texts[_FOLDER.encode()] = os.fsencode(folder)
    startup, path = os.fsencode(_STARTUP), texts.get(_PATH.encode())
    if path is None or path.split(os.fsencode(os.pathsep))[0] != startup:
        texts[_PATH.encode()] = startup if not path else startup + os.fsencode(os.pathsep) + path
    return True
