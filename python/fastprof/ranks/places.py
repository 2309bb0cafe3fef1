# SPDX-License-Identifier: Apache-2.0
"""Folders of ranks: paths of the file system, or fsspec's URLs, such as s3://bucket/run or memory://run.

A URL needs the package fsspec (extra `ranks-remote`) and the one of its store, such as s3fs. All functions raise
errors.UnavailableError if one is absent, and OSError for what cannot be read or written. Any thread.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from fastprof.base import errors
from fastprof.base.optional_package import optional_package

__all__ = [
    "absolute",
    "complete_file",
    "file_system",
    "is_url",
    "join",
    "make_place",
    "names_in",
    "open_file",
    "remove_file",
]


def is_url(path: str) -> bool:
    """Return whether a path is a URL of fsspec rather than one of the file system."""
    return "://" in path


def absolute(path: str) -> str:
    """Return a path that other processes of the host can use; a URL is one already."""
    return path if is_url(path) else os.path.abspath(path)


def join(folder: str, name: str) -> str:
    """Return the path of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}" if is_url(folder) else os.path.join(folder, name)


def file_system(url: str) -> tuple[Any, str]:
    """Return fsspec's file system of a URL, and the path in it."""
    core = optional_package("fsspec.core", "ranks-remote")
    with _described(url):
        system, path = core.url_to_fs(url)
    return system, path


def names_in(folder: str) -> list[str]:
    """Return the sorted names of what a folder contains."""
    if not is_url(folder):
        return sorted(os.listdir(folder))
    system, path = file_system(folder)
    with _described(folder):
        system.invalidate_cache()  # a store's listing of an earlier call
        found = system.ls(path, detail=False)
    return sorted(each.rstrip("/").rpartition("/")[2] for each in found)


@contextmanager
def open_file(path: str) -> Iterator[BinaryIO]:
    """Open a file for reading."""
    if not is_url(path):
        with open(path, "rb") as file:
            yield file
        return
    system, inner = file_system(path)
    with _described(path):
        remote = system.open(inner, "rb")
    with remote:
        yield remote


def make_place(folder: str) -> None:
    """Create a folder if it is missing; stores without folders do nothing."""
    if not is_url(folder):
        os.makedirs(folder, exist_ok=True)
        return
    system, path = file_system(folder)
    with _described(folder):
        system.makedirs(path, exist_ok=True)


@contextmanager
def complete_file(path: str) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when the block ends without an exception."""
    from fastprof.base.atomic_file import atomic_binary  # readers do not need it

    if not is_url(path):
        with atomic_binary(path) as file:
            yield file
        return
    system, inner = file_system(path)
    if getattr(system, "local_file", False):
        with atomic_binary(inner) as file:
            yield file
        return
    memory = io.BytesIO()
    yield memory
    with _described(path):
        system.pipe_file(
            inner, memory.getvalue()
        )  # one request: stores show an object when it is complete


def remove_file(path: str) -> None:
    """Remove a file if it can be removed: for use after another error, which is the one to report."""
    with suppress(Exception):
        if is_url(path):
            system, inner = file_system(path)
            system.rm_file(inner)
        else:
            os.unlink(path)


@contextmanager
def _described(url: str) -> Iterator[None]:
    """Raise the errors of stores, whose classes are their own, as fastprof's."""
    try:
        yield
    except (OSError, errors.Error):
        raise
    except ImportError as error:
        raise errors.UnavailableError(
            f"the store of {url} cannot be read: {error}. Install the package that fsspec needs for it."
        ) from error
    except Exception as error:
        raise errors.IoError(
            f"{url}: {type(error).__name__}: {error}. Check the address and the credentials of the store."
        ) from error
