# SPDX-License-Identifier: Apache-2.0
"""with_forward_tracks: the threads of forward ops in traces, which have the recorder's numbers for them.

A trace says of a backward function the sequence number of its forward op and a number of the op's thread (arg
"Fwd thread id", of fastprof and torch.profiler) that its threads do not have. Sequence numbers count within a thread,
so the thread is the one whose ops have the most of those that backward functions give with the number.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.record_scope import RecordScope
from fastprof.importers.distinct import distinct_rows
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
    pid = np.array([track.pid for track in table.tracks], np.int64)[table.column("track")]
    threads, thread_of = distinct_rows([pid[backward], forward[backward]])
    if len(threads) > _MOST_THREADS:
        return table
    tracks = TrackTable(_from_one(track) for track in table.tracks)
    ops = np.flatnonzero((sequence >= 0) & (forward <= 0) & np.isin(sequence, sequence[backward]))
    ops = ops[np.argsort(table.start_ns[ops], kind="stable")]
    track = tracks.thread_ids[table.column("track")[ops]]
    # Each number of a track once.
    _, first = np.unique(distinct_rows([track, sequence[ops]])[1], return_index=True)
    first.sort()
    ops, track = ops[first], track[first]
    renumbered = forward.copy()
    taken: set[int] = set()
    for number, (process, thread) in enumerate(threads.tolist()):
        wanted = sequence[backward[thread_of == number]]
        votes = track[(pid[ops] == process) & np.isin(sequence[ops], wanted)]
        ids, begins, counts = np.unique(votes, return_index=True, return_counts=True)
        if not len(ids):
            continue
        # Of threads that do the same, another one for each number, in the order in which they began.
        is_taken = np.isin(ids, list(taken))
        best = int(ids[np.lexsort((begins, is_taken, -counts))[0]])
        taken.add(best)
        renumbered[(pid == process) & (forward == thread)] = best
    return table.with_columns({"fwd_thread": renumbered}, tracks=tracks)


def _from_one(track: Track) -> Track:
    return track._replace(
        id=track.id + 1, thread_id=track.thread_id + 1 if track.thread_id >= 0 else -1
    )
