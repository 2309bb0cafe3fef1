# SPDX-License-Identifier: Apache-2.0
"""Dumps: copies of a flight recorder's records, with the reason, in a folder of bounded size."""

from __future__ import annotations

import json
import os
import re
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from fastprof import _core
from fastprof.base import errors
from fastprof.base.atomic_file import check_output
from fastprof.base.visible_text import encodable_text, visible_text
from fastprof.decode.sample_file import copied_samples
from fastprof.flight_recorder.thread_stacks import innermost_text
from fastprof.model.columns import EventFlag, EventKind
from fastprof.profiler.recovery import SAMPLES_FACT, WHEN_FACT, program_name, recover
from fastprof.record.missing_counts import MISSING_COUNTS
from fastprof.record.process_folder import FOLDER_VARIABLE

if TYPE_CHECKING:
    from fastprof.model.table import EventTable

__all__ = [
    "SUFFIX",
    "Dumps",
    "command_of_records",
    "dump_facts",
    "lost_records",
    "read_dump",
    "write_dump",
]

SUFFIX = ".flight"
_MOST_OPEN = 16
# Members of a dump's metadata.
_REASON, _DETAIL, _SECONDS, _STACKS = ("reason", "detail", "seconds", "stacks_of_threads")


class Dumps:
    """A folder of dumps. Not thread-safe: the caller holds a lock.

    folder: None: fastprof-dumps-UID among the temporary files. max_bytes: bound of all dumps of this recorder; a dump
    that would exceed it is not written. min_interval_s: time between two dumps for one reason.
    """

    def __init__(self, folder: str | None, max_bytes: int, min_interval_s: float) -> None:
        """Raises errors.IoError if `folder` cannot be made or written."""
        if folder is not None:  # else nobody would know before the first dump
            try:
                os.makedirs(folder, exist_ok=True)
            except OSError as error:
                raise errors.IoError(
                    error.errno,
                    f"cannot make the folder of dumps {folder}: {error.strerror}. Choose another dump_folder.",
                ) from error
            check_output(os.path.join(folder, SUFFIX))
        self.folder = folder
        self.max_bytes = max_bytes
        self.min_interval_s = min_interval_s
        self.written: dict[str, int] = {}  # reason -> dumps
        self.suppressed: dict[str, int] = {}  # reason -> dumps left out by the bounds
        self.written_bytes = 0
        self._last_s: dict[str, float] = {}

    def allow(self, reason: str) -> bool:
        """Return whether a dump for `reason` is within the bounds, and count it as suppressed if not."""
        now_s = time.monotonic()
        last_s = self._last_s.get(reason)
        early = last_s is not None and now_s - last_s < self.min_interval_s
        if early or self.written_bytes >= self.max_bytes:
            self.suppressed[reason] = self.suppressed.get(reason, 0) + 1
            return False
        self._last_s[reason] = now_s
        return True

    def write(self, records: str, reason: str, detail: str, seconds: float, stacks: str) -> str:
        """Write a dump of the file `records`; return its path."""
        folder = self._folder()
        when = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        name = program_name()
        named = name and not name.startswith("-")  # else -c CODE
        program = re.sub(r"[^\w.-]+", "_", name)[:40] if named else "python"
        stem = f"{program}-{os.getpid()}-{when}-{re.sub(r'[^a-z0-9]+', '-', reason.lower())[:30]}"
        path, number = os.path.join(folder, stem + SUFFIX), 1
        while os.path.lexists(path):
            number += 1
            path = os.path.join(folder, f"{stem}-{number}{SUFFIX}")
        self.written_bytes += write_dump(records, path, reason, detail, seconds, stacks)
        self.written[reason] = self.written.get(reason, 0) + 1
        return path

    def _folder(self) -> str:
        if self.folder is not None:
            os.makedirs(self.folder, exist_ok=True)
            return self.folder
        import tempfile

        from fastprof.record.process_folder import make_private

        path = os.path.join(tempfile.gettempdir(), f"fastprof-dumps-{os.geteuid()}")
        make_private(path)
        return path


def write_dump(
    records: str, path: str, reason: str, detail: str = "", seconds: float = 0.0, stacks: str = ""
) -> int:
    """Copy the backing file `records`, whose process may run, to the new file `path`; return its bytes.

    Raises errors.IoError if a file cannot be read or written, errors.FormatError if `records` is not a backing file.
    """
    facts = [(_REASON, reason), (WHEN_FACT, str(time.time_ns()))]
    facts += [(_DETAIL, detail)] if detail else []
    facts += [(_SECONDS, repr(float(seconds)))] if seconds else []
    facts += [(_STACKS, stacks)] if stacks else []
    samples = copied_samples(records)
    facts += [(SAMPLES_FACT, samples)] if samples else []
    clean = [(key, encodable_text(value)) for key, value in facts]
    written, _ = _core.copy_backing_file(os.fsencode(records), os.fsencode(path), clean)
    return written


def read_dump(path: str | os.PathLike[str], *, seconds: float = 0.0) -> EventTable:
    """Return the events of a dump, or of a recorder's own file, as a table.

    seconds: the last so many of it; 0: those that the dump was made for (the recorder's `seconds`). Rows that ended
    before are left out; the others, and the time of the table, begin there at the earliest. Overwritten events are in
    `dropped` only if they may belong to these seconds; else metadata["earlier_events"] counts them.

    Raises as recover() does. A file that is being written is to be copied first (write_dump).
    """
    table = recover(path)
    facts = table.metadata["recovered"]["metadata"]
    if not seconds:
        try:
            seconds = float(facts.get(_SECONDS, 0))
            int(seconds * 1e9)
        except (ValueError, OverflowError) as error:  # no text of a number; nan, infinity
            raise errors.FormatError(
                f"{os.fspath(path)}: its member {_SECONDS!r} is no number; copy it again"
            ) from error
    cut_ns = table.t1_ns - int(seconds * 1e9)
    if not seconds or cut_ns <= table.t0_ns:
        return table
    kept = table.column("end_ns") >= cut_ns
    covered = not kept.all()
    table = table[kept]
    # Else the self time of a range that encloses the seconds has all that was before them.
    table = table.with_columns({"start_ns": np.maximum(table.start_ns, cut_ns)})
    table.t0_ns = cut_ns
    if covered and "overwritten" in table.dropped:
        table.metadata["earlier_events"] = table.dropped.pop("overwritten")
    return table


def command_of_records(path: str | os.PathLike[str]) -> str:
    """Return the command line of the process that wrote a backing file; "" if unknown. Reads no records."""
    try:
        return _core.backing_file_metadata(os.fsencode(path)).get("argv", "")
    except errors.Error:
        return ""


def dump_facts(table: EventTable) -> list[str]:
    """Return lines for a dump or a killed process's file: why it was made, what its threads did, what was open and is
    missing; none for another table.
    """
    recovered: Any = table.metadata.get("recovered")
    if not isinstance(recovered, dict):
        return []
    facts: Any = recovered.get("metadata")
    lines = []
    if isinstance(facts, dict) and _REASON in facts:
        detail = f": {facts[_DETAIL]}" if _DETAIL in facts else ""
        lines.append(visible_text(f"dumped: {facts[_REASON]}{detail}"))
        lines += _stack_lines(facts.get(_STACKS, "{}"))
    if isinstance(facts, dict) and "min_op_us" in facts:
        lines.append(
            visible_text(f"ops below {facts['min_op_us']} us are part of what ran them (min_op_us)")
        )
    return [*lines, *_open_ranges(table), *lost_records(table)]


def _stack_lines(text: Any) -> list[str]:
    try:
        return [
            visible_text(f"  {thread}: {innermost_text(each)}")
            for thread, each in json.loads(text).items()
            if each
        ]
    except (ValueError, AttributeError, TypeError, LookupError):
        return ["  the stacks of its threads are damaged"]


def _open_ranges(table: EventTable) -> list[str]:
    """Return a line for each of at most _MOST_OPEN threads, with its innermost open ranges, outer ones first."""
    if not table.has("flags") or not table.has("kind"):
        return []
    is_open = (table.column("flags") & EventFlag.FINISHED) == 0
    rows = np.flatnonzero(is_open & (table.column("kind") == EventKind.RANGE))
    rows = rows[np.argsort(table.start_ns[rows], kind="stable")]
    of_threads: dict[int, list[str]] = {}
    for thread, row in zip(table.recording_thread[rows].tolist(), rows.tolist(), strict=True):
        of_threads.setdefault(thread, []).append(visible_text(table.name(row)))
    known = {track.id: track.name for track in table.tracks.rows}
    lines = [
        f"open at the end, {visible_text(known.get(thread) or f'thread {thread}')}: {' > '.join(names[-_MOST_OPEN:])}"
        for thread, names in of_threads.items()
    ]
    left = len(lines) - _MOST_OPEN
    return [
        *lines[:_MOST_OPEN],
        *([f"open at the end: ranges of {left} more threads"] if left > 0 else []),
    ]


def lost_records(table: EventTable) -> list[str]:
    """Return lines that say what the recorder's file had no room for; none for a whole one, or another table."""
    facts: Any = table.metadata.get("recovered")
    return [
        f"missing: {facts[key]} {MISSING_COUNTS[key]}; make room in the recorder's folder, or set {FOLDER_VARIABLE}"
        for key in ("fallback_slabs", "names_lost")
        if isinstance(facts, dict) and facts.get(key)
    ]
