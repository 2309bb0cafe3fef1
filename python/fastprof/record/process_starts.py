# SPDX-License-Identifier: Apache-2.0
"""Pass the shard folder on to the processes that this one starts, and record each start as a flow arrow.

A process that executes a program finds the folder in its environment: FASTPROF_FOLLOW is the path, and PYTHONPATH
begins with a folder whose sitecustomize.py starts the recording. A forked process has it in memory
(profiler/followed_process.py). The arrow leads from the start of a process to its first event.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fastprof import _core
from fastprof.record.shard_folder import ShardFolder

__all__ = ["LINK_NAME", "Followed", "begin", "end", "followed", "is_executing"]

LINK_NAME = "child process"
_FOLDER, _PATH = "FASTPROF_FOLLOW", "PYTHONPATH"
_STARTUP = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "profiler", "startup"
)

# Positions of the command and of the environment among the arguments of _posixsubprocess.fork_exec, os.posix_spawn.
_FORK_EXEC, _SPAWN = (0, 5), (1, 2)
_PYTHON = re.compile(r"python[\d.]*[dt]*(?:\.exe)?")


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
        self.server_noted = False

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
    os.environ.update({os.fsdecode(k): os.fsdecode(v) for k, v in _lacking(os.environb, folder)})
    if not _replaced:
        import _posixsubprocess  # what subprocess and multiprocessing execute programs with

        _replace(_posixsubprocess, "fork_exec", partial(_recorded, places=_FORK_EXEC))
        for name in ("posix_spawn", "posix_spawnp"):
            if hasattr(os, name):
                _replace(os, name, partial(_recorded, places=_SPAWN))
        _replace(os, "execve", _executing_with_folder)
        server = sys.modules.get("multiprocessing.forkserver")
        running = getattr(getattr(server, "_forkserver", None), "_forkserver_pid", None)
        if running is not None:
            _replace(server, "connect_to_new_process", partial(_of_earlier_server, pid=running))
        # These pass on this process's environment, which the program may have changed.
        for name in ("execv", "system"):
            _replace(os, name, partial(_in_repaired_environment, is_exec=name == "execv"))


def end() -> None:
    """Undo begin(). Has no effect when called again."""
    global _followed
    _followed = None
    os.environ.pop(_FOLDER, None)
    entries = os.environ.get(_PATH, "").split(os.pathsep)
    if _STARTUP in entries:  # not always the first: the program may have put others in front
        entries.remove(_STARTUP)
        if entries:
            os.environ[_PATH] = os.pathsep.join(entries)
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


def _replace(module: Any, name: str, wrap: Callable[[Callable[..., int]], Any]) -> None:
    original = getattr(module, name)
    replacement = wrap(original)
    _replaced.append((module, name, original, replacement))
    setattr(module, name, replacement)
    subprocess = sys.modules.get("subprocess")
    if getattr(subprocess, f"_{name}", None) is original:
        setattr(subprocess, f"_{name}", replacement)


def _recorded(original: Callable[..., int], places: tuple[int, int]) -> Callable[..., int]:
    """Wrap a function that starts a process and returns its pid; inactive once nothing is followed."""

    command_at, environment_at = places

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
            if len(args) > command_at:
                _note_isolated(following, args[command_at], pid)
            _core.flow_begin(following.link_of(pid), LINK_NAME)
            following.started()
        return pid

    return start_process


def _of_earlier_server(original: Callable[[Any], Any], pid: int) -> Callable[[Any], Any]:
    """Wrap the start of a process by multiprocessing's forkserver `pid`, which lacks our variables."""

    @functools.wraps(original)
    def connect_to_new_process(fds: Any) -> Any:
        following = _followed
        if following is not None and not following.server_noted:
            server: Any = sys.modules["multiprocessing.forkserver"]
            if server._forkserver._forkserver_pid == pid:
                following.server_noted = True
                ShardFolder(following.folder).note(
                    "multiprocessing's forkserver started before the recording: the processes that it starts are not"
                    " recorded. Start the profile before the first of them",
                    pid,
                )
        return original(fds)

    return connect_to_new_process


def _executing_with_folder(original: Callable[..., int]) -> Callable[..., int]:
    """Wrap os.execve."""

    @functools.wraps(original)
    def execve(path: Any, argv: Any, env: Any) -> int:
        following = _followed
        if following is None:
            return original(path, argv, env)
        _note_isolated(following, argv)
        return original(path, argv, with_folder(env, following.folder))

    return execve


def _note_isolated(following: Followed, command: Any, pid: int = 0) -> None:
    """Write a note about a process, 0: this one, whose Python does not import our sitecustomize. Never raises."""
    try:
        option = _isolating_option([os.fsdecode(word) for word in command])
    except Exception:  # words of other types: the program's own error follows
        return
    if option:
        text = f"not recorded: it was started by `python {option}`, which ignores PYTHONPATH or sitecustomize. "
        ShardFolder(following.folder).note(text + "Leave the option out to record it", pid)


def _isolating_option(command: list[str]) -> str:
    """Return which of Python's options -I, -E and -S a command has; "" for none, and for other programs."""
    if not command or not _PYTHON.fullmatch(os.path.basename(command[0])):
        return ""
    words = iter(command[1:])
    for word in words:
        if not word.startswith("-") or word in ("-", "--"):
            break
        for at, letter in enumerate(word[1:], 2):
            if letter in "IES":
                return f"-{letter}"
            if letter in "cm-":
                return ""
            if letter in "WX":  # the value is the rest of the word, or the next one
                if at == len(word):
                    next(words, None)
                break
    return ""


def _in_repaired_environment(
    original: Callable[..., int], is_exec: bool = False
) -> Callable[..., int]:
    """Wrap a function that passes on os.environ: during the call, it contains our variables."""

    @functools.wraps(original)
    def start(*args: Any, **kwargs: Any) -> int:
        following = _followed
        lacking = [] if following is None else _lacking(os.environb, following.folder)
        if following is not None and is_exec and len(args) > 1:
            _note_isolated(following, args[1])
        before = {name: os.environb.get(name) for name, _ in lacking}
        try:
            os.environb.update(lacking)
            return original(*args, **kwargs)
        finally:
            for name, value in before.items():
                if value is None:
                    os.environb.pop(name, None)
                else:
                    os.environb[name] = value

    return start


def with_folder(environment: Any, folder: str) -> Any:
    """Return an environment for a new process, with each of our two variables added that the program left out.

    environment: a mapping, or a sequence of b"NAME=value"; None: this process's, which the program may have changed.
    What lacks nothing is returned unchanged.
    """
    if environment is None:
        added = _lacking(os.environb, folder)
        merged = {**os.environb, **dict(added)}
        return [key + b"=" + value for key, value in merged.items()] if added else None
    if isinstance(environment, Mapping):
        texts = {os.fsencode(key): os.fsencode(value) for key, value in environment.items()}
        added = _lacking(texts, folder)
        return {**texts, **dict(added)} if added else environment
    if not isinstance(environment, Sequence):
        return environment
    texts = dict(os.fsencode(entry).partition(b"=")[::2] for entry in environment)
    added = _lacking(texts, folder)
    merged = {**texts, **dict(added)}
    return [key + b"=" + value for key, value in merged.items()] if added else environment


def _lacking(texts: Mapping[bytes, bytes], folder: str) -> list[tuple[bytes, bytes]]:
    """Return our variables that an environment lacks, or that lead to another folder. Each is judged by itself."""
    lacking = []
    name, wanted = os.fsencode(_FOLDER), os.fsencode(folder)
    if texts.get(name) != wanted:
        lacking.append((name, wanted))
    name, startup, separator = os.fsencode(_PATH), os.fsencode(_STARTUP), os.fsencode(os.pathsep)
    entries = [entry for entry in (texts.get(name) or b"").split(separator) if entry != startup]
    if (texts.get(name) or b"").split(separator)[0] != startup:
        # An empty entry is the current folder, so that an empty variable is not the same as one with an empty entry.
        lacking.append((name, separator.join([startup, *entries] if any(entries) else [startup])))
    return lacking
