# SPDX-License-Identifier: Apache-2.0
"""Read libtorch's layout from the installed torch headers with the compiler: once per torch, then cached.

The result is trusted only after the self-tests, like the built-in tables.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from fastprof.adapters.torch.layout import SECTIONS, numbers_in, source_of
from fastprof.adapters.torch.versions import cache_folder, cxx11_abi
from fastprof.base.atomic_file import atomic_text

__all__ = ["LayoutError", "after_fork_in_child", "layout_from_headers"]

_COMPILE_LIMIT_S = 300
# Exclusive upper bounds of the numbers that the native module accepts, by section.
_LIMITS = {"ops": 2**32, "inputs": 2**64, "memory": 2**32}

# Section -> its numbers, or the reason why they could not be read.
_Answers = dict[str, list[int] | str]

_lock = threading.Lock()
_answered: dict[Path, _Answers] = {}  # by cache file; also if that file cannot be written


class LayoutError(Exception):
    """The layout cannot be read from the headers; the message says why and what to do."""


def layout_from_headers(torch: Any, section: str) -> list[int]:
    """Return the numbers of a section of layout.SECTIONS ("ops", "inputs", "memory"), in its order.

    The first call reads all sections, which takes seconds and prints one line to stderr. Any thread.
    Raises LayoutError.
    """
    cache = _cache_path(torch)
    with _lock:
        answers = _answered.get(cache) or _read_cache(cache)
        if answers is None:
            answers = _read_headers(torch, cache)
        _answered[cache] = answers
    answer = answers[section]
    if isinstance(answer, str):
        raise LayoutError(answer)
    return list(answer)


def after_fork_in_child() -> None:
    """Replace the lock, which another thread of the parent may have held."""
    global _lock
    _lock = threading.Lock()


def _read_headers(torch: Any, cache: Path) -> _Answers:
    """Compile the probe, write the cache, and print one line to stderr. Raises LayoutError without a compiler."""
    compiler = _compiler()
    started_s = time.monotonic()
    answers = _answers_of(torch, compiler, list(SECTIONS))
    kept = _write_cache(cache, {**answers, "torch": str(torch.__version__), "compiler": compiler})
    refused = [name for name in SECTIONS if isinstance(answers[name], str)]
    print(
        f"fastprof: compiled a probe against the headers of torch {torch.__version__} to read its layout"
        f" ({time.monotonic() - started_s:.0f} s; {kept}"
        + (f"; failed for {', '.join(refused)})" if refused else ")"),
        file=sys.stderr,
    )
    return answers


def _answers_of(torch: Any, compiler: str, names: list[str]) -> _Answers:
    """Compile one file for all sections; if that fails, one per section, so that the others succeed."""
    try:
        result = _compile(torch, compiler, source_of(names))
    except LayoutError as error:
        if len(names) == 1:
            return {names[0]: str(error)}
        return {
            name: answer
            for one in names
            for name, answer in _answers_of(torch, compiler, [one]).items()
        }
    missing = f"the object file written by {compiler} does not contain the layout"
    return {name: numbers_in(result, name) or missing for name in names}


def _cache_path(torch: Any) -> Path:
    include = _include(torch)
    headers = sorted({header for section in SECTIONS.values() for header in section.includes})
    texts = []
    for header in ("ATen/record_function.h", *headers):
        try:
            texts.append((include / header).read_bytes())
        except OSError as error:
            if not texts:
                raise LayoutError(
                    f"torch's headers are not installed ({error}); install a build of torch that includes"
                    " them, such as an official one"
                ) from None
            texts.append(b"")
    identity = [str(torch.__version__), platform.machine(), cxx11_abi(torch), source_of(SECTIONS)]
    digest = hashlib.sha256(repr([*identity, texts]).encode()).hexdigest()[:16]
    return cache_folder() / f"torch-layout-{digest}.json"


def _read_cache(cache: Path) -> _Answers | None:
    """Return the cached numbers; None if missing, invalid, or a failure of another compiler."""
    try:
        kept = json.loads(cache.read_text())
        answers: _Answers = {name: kept[name] for name in SECTIONS}
        for name, answer in answers.items():
            if isinstance(answer, str):
                if kept["compiler"] != _compiler():
                    return None
            elif len(answer) != len(SECTIONS[name].numbers):
                return None
            elif not all(type(n) is int and 0 <= n < _LIMITS[name] for n in answer):
                return None
    except (OSError, ValueError, KeyError, TypeError, LayoutError):
        return None
    return answers


def _write_cache(cache: Path, contents: dict[str, Any]) -> str:
    """Write atomically; return a note for the user, which says so if the folder is not writable."""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        with atomic_text(cache) as file:
            json.dump(contents, file)
    except OSError as error:
        return f"not cached: {error}"
    return f"cached in {cache}"


def _include(torch: Any) -> Path:
    place = getattr(torch, "__file__", None)
    if place is None:
        raise LayoutError(
            "torch has no __file__, so its headers cannot be found; install an official build of torch"
        )
    return Path(place).resolve().parent / "include"


def _compiler() -> str:
    """Return the compiler command, possibly with arguments ("ccache g++"); LayoutError without one."""
    named = os.environ.get("CXX")
    for name in [named] if named else ["c++", "g++", "clang++"]:
        with contextlib.suppress(ValueError):  # unbalanced quotes in CXX
            if shutil.which(next(iter(shlex.split(name)), "")):
                return name
    raise LayoutError(
        "reading the layout from torch's headers needs a C++ compiler, and none was found (tried"
        f" {named or 'c++, g++, clang++'}); install one, or set CXX"
    )


def _compile(torch: Any, compiler: str, source: str) -> bytes:
    """Compile the source; return the bytes of the object file. Raises LayoutError."""
    include = _include(torch)
    with tempfile.TemporaryDirectory(prefix="fastprof-torch-") as folder:
        file, result = Path(folder, "layout.cpp"), Path(folder, "layout.o")
        file.write_text(source)
        # The source uses private members, and offsetof of classes that are not standard-layout.
        command = [
            *shlex.split(compiler),
            "-std=c++20",
            "-w",
            "-O1",
            "-DNDEBUG",
            "-fno-access-control",
            "-c",
        ]
        command += ["-fno-strict-aliasing", "-fno-lto", "-fPIC"]
        command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(cxx11_abi(torch))}", f"-I{include}"]
        command += [f"-I{include / 'torch' / 'csrc' / 'api' / 'include'}"]
        try:
            done = subprocess.run(
                [*command, str(file), "-o", str(result)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_COMPILE_LIMIT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LayoutError(f"cannot run {compiler} on torch's headers ({error})") from None
        if done.returncode != 0:
            said = re.search(r"error.*", done.stderr)
            raise LayoutError(
                f"{compiler} cannot compile the probe of torch's headers; a declaration that it reads may"
                " be missing from them:"
                f" {said.group() if said else done.stderr.strip()[-200:]}"
            )
        return result.read_bytes()
