# SPDX-License-Identifier: Apache-2.0
"""Atomic files: a file appears under its name only once it is complete."""

from __future__ import annotations

import errno
import gzip
import io
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, TextIO, cast

from fastprof.base import errors

__all__ = ["atomic_binary", "atomic_text", "check_output", "is_special"]


@contextmanager
def atomic_binary(
    path: str | os.PathLike[str], *, compressed: bool | None = None
) -> Iterator[BinaryIO]:
    """Open a temporary binary file that is renamed to `path` when the block ends without an exception.

    The temporary file is in the same folder; on an exception it is removed and an existing `path`
    stays unchanged. Symbolic links are followed, so a link points to the new file; a device or pipe is
    written in place. A replaced file keeps its mode, which the temporary file has from its creation; a
    new file gets its mode from the umask. compressed: by gzip; None: if the path ends in .gz.

    Raises errors.IoError, naming the path, for an OSError of opening, writing (a full disk) or
    renaming; the caller's data stay in memory.
    """
    given = os.fsdecode(path)
    in_place = is_special(given)
    # The links of /dev/stdout and /dev/fd/N lead to pipes, which have no other path.
    target = Path(given if in_place else os.path.realpath(given))
    if compressed is None:
        compressed = given.endswith(".gz")
    temporary = target if in_place else _temporary_name(target)
    try:
        with open(temporary, "wb" if in_place else "xb", opener=_opener(target)) as raw:
            if compressed:
                # No time and no name in the header: equal data give equal files.
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield raw
            raw.flush()
        if not in_place:
            _keep_mode(target, temporary)
            os.replace(temporary, target)
    except OSError as error:
        if not in_place and not isinstance(error, FileExistsError):  # else it is another's file
            _remove(temporary)
        if isinstance(error, errors.IoError):
            raise
        reason = error.strerror or str(error)
        raise errors.IoError(
            error.errno,
            f"cannot write {given}: {reason}. No partial file was left, and the data are still "
            "in memory: free space, or export to another path.",
        ) from error
    except BaseException:
        if not in_place:  # Ctrl-C may come when the file has been made, and open() has not returned
            _remove(temporary)
        raise


@contextmanager
def atomic_text(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Like atomic_binary, for UTF-8 text with "\\n" line ends.

    Lone surrogates, which UTF-8 cannot encode, are written as backslash escapes.
    """
    with atomic_binary(path) as binary:
        text = io.TextIOWrapper(
            cast(IO[bytes], binary), encoding="utf-8", errors="backslashreplace", newline="\n"
        )
        try:
            yield text
        finally:
            # atomic_binary closes the file: the wrapper must not flush when it is collected later.
            try:
                text.flush()
            finally:
                text.detach()


def is_special(path: str) -> bool:
    """Return whether a path is a device, a pipe or a folder: not a file, nor a name for a new one."""
    return os.path.exists(path) and not os.path.isfile(path)


def check_output(path: str) -> None:
    """Raise errors.IoError if no file can be created at `path`; for use before a long run.

    Creates nothing: the folder must exist and be writable, and the path must not be a folder.
    """
    try:
        folder = os.path.dirname(os.path.realpath(path))
    except FileNotFoundError:  # of getcwd()
        raise errors.IoError(
            errno.ENOENT,
            f"cannot write {path}: the working folder was removed. Use an absolute path, or cd to another folder.",
        ) from None
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # the other checks take it for the name of a new file
            raise errors.IoError(
                error.errno, f"cannot write {path}: {error.strerror}. Use a shorter one."
            ) from None
    if os.path.isdir(path):
        raise errors.IoError(
            errno.EISDIR, f"cannot write {path}: it is a folder. Use the name of a file."
        )
    if not os.path.isdir(folder):
        raise errors.IoError(
            errno.ENOENT, f"cannot write {path}: the folder {folder} does not exist. Create it."
        )
    special = is_special(path)
    if not os.access(path if special else folder, os.W_OK | (0 if special else os.X_OK)):
        raise errors.IoError(
            errno.EACCES,
            f"cannot write {path}: no permission to write in {folder}. Choose another folder.",
        )


def _temporary_name(target: Path) -> Path:
    # The target's name is cut, because file systems limit names to 255 bytes; a character has up to four.
    return target.with_name(f".{target.name[:48]}.{os.getpid()}.{secrets.token_hex(4)}.tmp")


def _opener(target: Path) -> Callable[[str, int], int]:
    """Return an opener that creates the temporary file with the mode of the file to be replaced.

    The mode applies from creation, so that whoever may not read the target cannot read the new data
    in the meantime. For a new file: by the umask.
    """
    mode = _mode_of(target)
    return lambda path, flags: os.open(path, flags, 0o666 if mode is None else mode & 0o777)


def _mode_of(target: Path) -> int | None:
    try:
        return target.stat().st_mode & 0o7777
    except FileNotFoundError:
        return None


def _keep_mode(target: Path, temporary: Path) -> None:
    """Give the new file the mode of the one it replaces; at creation the umask may have cleared bits."""
    mode = _mode_of(target)
    if mode is not None:
        os.chmod(temporary, mode)


def _remove(path: Path) -> None:
    with suppress(OSError):  # the original error is the one to report
        path.unlink()
