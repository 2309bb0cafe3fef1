# SPDX-License-Identifier: Apache-2.0
"""Shorten the paths in names of Python calls. PyTorch's form of such a name: "/srv/u/train.py(12): step"."""

from __future__ import annotations

import os
import re

__all__ = ["absolute_path", "call_label", "is_installed", "shorten_paths", "working_folder"]

_CALL = re.compile(r"(?<![\w.])/[^():\n]*?/(?=[^/():\n]+\.pyx?(?:\(\d+\)|:\d+ in ))")
_NAMED = re.compile(r"(?:.*[/\\])?([^/\\]+)\((\d+)\): (.+)", re.DOTALL)
_BUILT_IN = re.compile(
    r"<(?:built-in (?:function|method)|method) '?([^ ']+)(?: .*|'.*)?>", re.DOTALL
)
_INSTALLED = re.compile(r".*/(?:site-packages|dist-packages|lib/python3\.\d+t?)/")


def shorten_paths(text: str, folder: str | None = None) -> str:
    """Return the text with the path of each call relative to `folder` or to the folder of installed packages.

    "/srv/u/train.py(12): step" becomes "train.py(12): step" in /srv/u ("/srv/u/train.py:12 in step" likewise), and
    "/usr/lib/python3.11/site-packages/torch/x.py(3): f" becomes "torch/x.py(3): f". Other paths are kept.
    folder: default: the working directory. Any thread.

        shorten_paths("/srv/u/train.py(12): step", "/srv/u")
    """
    if "/" not in text:
        return text
    own = folder if folder is not None else working_folder()
    return _CALL.sub(lambda found: _short(found[0], own.rstrip("/") + "/"), text)


def call_label(name: str) -> tuple[str, str]:
    """Return (label, shorter label) of a call by its name in PyTorch's form; else the name twice. Any thread.

    call_label("/srv/u/train.py(12): step")  # ("step (train.py:12)", "step")
    call_label("<built-in function sleep>")  # ("sleep", "sleep")
    """
    built_in = _BUILT_IN.fullmatch(name)
    if built_in is not None:
        return built_in[1], built_in[1]
    found = _NAMED.fullmatch(name)
    if found is None:
        return name, name
    return f"{found[3]} ({found[1]}:{found[2]})", found[3]


def is_installed(path: str) -> bool:
    """Return whether a source file belongs to Python or to an installed package. Any thread."""
    return _INSTALLED.match(path.replace("\\", "/")) is not None


def _short(path: str, folder: str) -> str:
    """Shorten a path that ends in "/"."""
    installed = _INSTALLED.match(path)
    if installed:
        return path[installed.end() :]
    return path[len(folder) :] if folder != "/" and path.startswith(folder) else path


def working_folder() -> str:
    """Return the working folder, or "/" if it was removed. Any thread."""
    try:
        return os.getcwd()
    except OSError:  # the working directory was removed
        return "/"


def absolute_path(path: str) -> str:
    """Return the absolute path; a relative path itself if the working folder was removed. Any thread."""
    try:
        return os.path.abspath(path)
    except OSError:
        return path
