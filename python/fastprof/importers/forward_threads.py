# SPDX-License-Identifier: Apache-2.0
"""with_forward_tracks: the threads of forward ops in traces, which have the recorder's numbers for them.

A trace says of a backward function the sequence number of its forward op and a number of the op's thread (arg
"Fwd thread id", of fastprof and torch.profiler) that its threads do not have. Sequence numbers count within a thread,
so the thread is the one whose ops have the numbers that backward functions give, and the fewest others.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.record_scope import RecordScope
from fastprof.importers.distinct import distinct_rows, distinct_values
from fastprof.model.sites import Track, TrackTable
from fastprof.model.table import EventTable

__all__ = ["with_forward_tracks"]

Array: TypeAlias = NDArray[Any]
_MOST_THREADS = 1024  # more are of a damaged file, and would take minutes


def with_forward_tracks(table: EventTable) -> EventTable:
    """Return the table with ids of tracks in fwd_thread; ids count from 1 then, because 0 is none.

    The table itself without backward functions. Numbers of which no op is in the trace stay. Any thread.
    """
    if not (table.has("sequence_nr") and table.has("fwd_thread") and len(table.tracks)):
        return table
    sequence, forward = table.column("sequence_nr"), table.column("fwd_thread")
    is_backward = (sequence >= 0) & (forward > 0)
    is_backward &= table.column("scope") == RecordScope.BACKWARD_FUNCTION
    backward = np.flatnonzero(is_backward)
    if not len(backward):
        return table
    track = table.column("track")
    pids = np.array([each.pid for each in table.tracks], np.int64)
    threads, thread_of = distinct_rows([pids[track[backward]], forward[backward]])
    if len(threads) > _MOST_THREADS:
        return table
    ops = np.flatnonzero((sequence >= 0) & (forward <= 0))
    values, codes = distinct_values(sequence[np.concatenate([backward, ops])])
    wanted, count = codes[: len(backward)], max(len(values), 1)
    tracks = TrackTable(_from_one(each) for each in table.tracks)
    ids, op_thread = distinct_values(tracks.thread_ids[track[ops]])
    # Of each thread of ops: its process, its sequence numbers, and when it began.
    process = np.zeros(len(ids), np.int64)
    process[op_thread] = pids[track[ops]]
    thread, number = np.divmod(
        distinct_values(op_thread * count + codes[len(backward) :])[0], count
    )
    size = np.bincount(thread, minlength=len(ids))
    begin = np.full(len(ids), np.iinfo(np.int64).max)
    np.minimum.at(begin, op_thread, table.start_ns[ops])
    renumbered = forward.copy()
    taken = np.zeros(len(ids), np.bool_)
    for index, (pid, given) in enumerate(threads.tolist()):
        is_wanted = np.zeros(count, np.bool_)
        is_wanted[wanted[thread_of == index]] = True
        common = np.bincount(thread[is_wanted[number]], minlength=len(ids))
        common[process != pid] = 0
        if not common.any():
            continue
        share = common / (size + is_wanted.sum() - common)
        # Of threads that do the same, another one for each number, in the order in which they began.
        best = int(np.lexsort((begin, taken, -share))[0])
        taken[best] = True
        renumbered[(pids[track] == pid) & (forward == given)] = ids[best]
    return table.with_columns({"fwd_thread": renumbered}, tracks=tracks)


def _from_one(track: Track) -> Track:
    return track._replace(
        id=track.id + 1, thread_id=track.thread_id + 1 if track.thread_id >= 0 else -1
    )
