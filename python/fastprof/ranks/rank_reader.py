# SPDX-License-Identifier: Apache-2.0
"""RankReader: the ranks of a folder, each reduced to its summary, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from fastprof.base import errors
from fastprof.base.formatting import counted
from fastprof.base.number_list import number_list
from fastprof.exporters.progress import terminal_progress
from fastprof.ranks.engines import map_over
from fastprof.ranks.folder import find_shards
from fastprof.ranks.manifest import Shard
from fastprof.ranks.places import absolute
from fastprof.ranks.rank_events import read_events
from fastprof.ranks.rank_summary import RankSummary, summarise

__all__ = ["RankReader"]

_Result = TypeVar("_Result")


class RankReader:
    """Reads a folder when it is made. summaries: of the shards that can be read, by rank. problems: a sentence each.

    Raises errors.IoError if the folder cannot be read, and what map_over() raises.
    """

    def __init__(self, folder: str, strict: bool, engine: str | None) -> None:
        shards = find_shards(folder if engine is None else absolute(folder), engine)
        self._folder, self._strict, self._keeper = folder, strict, shards.keeper
        self.world_size = shards.world_size
        self.problems = list(shards.problems)
        self.summaries: list[tuple[Shard, RankSummary]] = []
        size = len(shards.found)
        with (
            terminal_progress(f"reading {counted(size, 'shard')}") as progress,
            closing(map_over(_summary, shards.found, engine)) as results,
        ):
            for number, (shard, result) in enumerate(zip(shards.found, results, strict=True)):
                if isinstance(result, RankSummary):
                    self.summaries.append((shard, result))
                else:
                    self.problems.append(f"rank {shard.rank}: {result}: left out")
                if progress is not None:
                    progress(number + 1, size)
        if not self.summaries:
            what = "; ".join(self.problems) or "it has neither shards nor traces"
            raise errors.FormatError(
                f"{folder}: no rank can be read: {what}. Record with fastprof.rank_trace_handler({folder!r})."
            )

    def check(self) -> None:
        """Raise errors.FormatError if there are problems and they are not accepted (strict)."""
        if self._strict and self.problems:
            raise errors.FormatError(
                f"{self._folder}: " + "; ".join(self.problems) + ". Read it without strict."
            )

    def later(self, read: Callable[[Shard], _Result], shard: Shard, what: str) -> _Result | None:
        """Return read(shard); None, with a problem, if the shard turns out to be damaged: it is left out of an answer.

        what: the answer. Raises errors.FormatError instead if it is strict.
        """
        try:
            return read(shard)
        except errors.FormatError as error:
            problem = f"rank {shard.rank}: {error}: left out of {what}"
            if problem not in self.problems:
                self.problems.append(problem)
            self.check()
        return None

    def find_missing(self) -> None:
        """Add problems of ranks that are missing, have fewer steps than others, or dropped events."""
        counts: dict[int, int] = {}
        for shard, each in self.summaries:
            counts[shard.rank] = counts.get(shard.rank, 0) + len(each.step)
        absent = sorted(set(range(self.world_size)) - set(counts))
        if absent:
            word = "rank" if len(absent) == 1 else "ranks"
            self.problems.append(
                f"{word} {number_list(absent)} of {self.world_size} not in the folder"
            )
        most = max(counts.values(), default=0)
        short = [rank for rank, count in sorted(counts.items()) if count < most]
        for rank in short[:8]:
            self.problems.append(f"rank {rank} is short: {counted(counts[rank], 'step')} of {most}")
        if len(short) > 8:
            self.problems.append(f"{counted(len(short) - 8, 'more rank')} are short")
        lost = {shard.rank: sum(shard.manifest["dropped"].values()) for shard, _ in self.summaries}
        self.problems += [f"rank {r} dropped {counted(n, 'event')}" for r, n in lost.items() if n]


def _summary(shard: Shard) -> RankSummary | str:
    try:
        events = read_events(shard)
    except errors.FormatError as error:
        return str(error)
    return summarise(events, shard.steps)
