# SPDX-License-Identifier: Apache-2.0
"""Job: the ranks of one run, read from their folder, and the answers over all of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

import fastprof.ranks as lazy  # types that are imported when they are asked for
from fastprof.analysis.intervals import union_of
from fastprof.base import errors
from fastprof.base.cached_property import cached_property
from fastprof.base.distinct import distinct
from fastprof.base.formatting import counted
from fastprof.base.number_list import number_list
from fastprof.base.optional_package import optional_package
from fastprof.ranks.clocks import RankClock, align_clocks, backward_pairs, violations
from fastprof.ranks.engines import check_engine
from fastprof.ranks.event_names import UNMATCHED
from fastprof.ranks.exposed_stages import ExposedStages
from fastprof.ranks.manifest import Shard
from fastprof.ranks.matching import Matched, match_collectives
from fastprof.ranks.places import file_system, is_url
from fastprof.ranks.rank_events import read_events
from fastprof.ranks.rank_reader import RankReader
from fastprof.ranks.rank_summary import PARTS, STAGES, RankSummary, summarise

if TYPE_CHECKING:
    from fastprof.ranks.shard_rows import ShardRows

__all__ = ["Job", "open_job"]

Array: TypeAlias = NDArray[Any]
_Result = TypeVar("_Result")


def open_job(
    folder: str | os.PathLike[str], *, strict: bool = False, engine: str | None = None
) -> Job:
    """Read the ranks of a job from a folder: their shards, or a trace of each.

    folder: a path, or a URL of fsspec, such as "s3://bucket/run".

    Shards are what rank_trace_handler() and `fastprof run --ranks` write. Traces of any format that load() reads, such
    as torch.profiler's, are converted to shards once, in parallel processes; these lie in the folder ".fastprof-ranks"
    beside the traces. A trace's rank is what it says itself (distributedInfo), else the number in its name.

    strict: raise errors.FormatError if a rank is missing, short or damaged; otherwise it is left out and named in
    `problems`.

    engine: who reads the ranks; default: threads of this process. "ray" or "dask": the workers of the cluster that the
    program is connected to, else of one on this machine for this call; "ray://HOST:PORT", "dask://HOST:PORT": those of
    a running cluster. Workers need this version of fastprof and the same folder. The engine repeats the ranks of a
    worker that dies. A program that starts a cluster of Dask on its machine needs `if __name__ == "__main__":`.

    Raises errors.IoError if the folder cannot be read, errors.FormatError if no rank is in it, errors.ValueError for an
    unknown engine, and errors.UnavailableError without pyarrow, the engine or its cluster. Any thread.

        job = fastprof.ranks.open("ranks")
        for each in job.stragglers:
            print(each.rank, each.cost_ns)
    """
    return Job(os.fsdecode(folder), strict, engine)


class Job:
    """The ranks of one run. Read only; any thread may read once the first answer has been read.

    folder: where they lie; of several jobs in it, the newest is read. world_size: number of ranks of the job. problems:
    a sentence for each rank that is missing, short, damaged or of an earlier job, and for each collective that does not
    match. strict: of open_job().
    """

    def __init__(self, folder: str, strict: bool = False, engine: str | None = None) -> None:
        optional_package("pyarrow.parquet", "ranks")
        check_engine(engine)
        self.folder, self.strict = folder, strict
        self._reader = RankReader(folder, strict, engine)
        self._summaries, self.problems = self._reader.summaries, self._reader.problems
        self.world_size = self._reader.world_size
        self._read_rows: dict[str, ShardRows | None] = {}  # by path; None: damaged
        if self.killed:
            from fastprof.ranks.killed import killed_text

            self.problems += [killed_text(each) for each in self.killed]
        self._reader.find_missing()
        self.problems += self.collectives.problems(self.ranks, self.groups)
        self.problems += self._unmatched()
        self._reader.check()

    @cached_property
    def ranks(self) -> list[int]:
        """Numbers of the ranks that were read, ascending."""
        return sorted({shard.rank for shard, _ in self._summaries})

    @property
    def job_id(self) -> str:
        """The launcher's name of the job, such as "Slurm 4711.0"; "" if it has none."""
        return str(self._summaries[0][0].manifest.get("job_id", ""))

    @property
    def manifests(self) -> list[dict[str, Any]]:
        """The manifests of the shards that were read: host, pid, versions, clock, what was dropped or not recorded."""
        return [dict(shard.manifest) for shard, _ in self._summaries]

    @property
    def shards(self) -> list[Shard]:
        """The shards that were read: path and manifest of each, by rank."""
        return [shard for shard, _ in self._summaries]

    @property
    def shard_paths(self) -> list[str]:
        """Paths of the Parquet files that were read, for any engine that reads Parquet."""
        return [shard.path for shard, _ in self._summaries]

    @cached_property
    def killed(self) -> list[dict[str, Any]]:
        """Ranks that were killed, ended without writing or still run, whose records up to there were read.

        Of each: rank, host, pid, last_ns (Unix time of its last record), step (number of its last step or None),
        collective (kind and group of the last that it began, "" for none), collective_ended, collective_start_ns,
        collectives (how many it began), alive (whether it still runs), records (name of its backing file).
        """
        return [
            {**{name: m[name] for name in ("rank", "host", "pid", "records")}, **m["killed"]}
            for m in self.manifests
            if m.get("killed")
        ]

    # ---- answers -------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> Array:
        """Numbers of the steps that any rank has, ascending, int64."""
        found: Array = distinct(np.concatenate([each.step for _, each in self._summaries]))
        return found

    def parts(self, name: str) -> Array:
        """Return a part of PARTS by (rank, step) in the order of `ranks` and `steps`, int64 ns; -1: no such step.

        name: duration_ns, compute_ns, communication_ns, exposed_ns, copies_ns, exposed_copies_ns or idle_ns.
        Raises errors.ValueError for another name.
        """
        if name not in PARTS:
            raise errors.ValueError(f"unknown part {name!r}. Use one of {', '.join(PARTS)}.")
        return self._by_step(lambda _, each: each.parts[name], ())

    def _by_step(self, value: Any, shape: tuple[int, ...]) -> Array:
        found = np.full((len(self.ranks), len(self.steps), *shape), -1, np.int64)
        for shard, each in self._summaries:
            found[self.ranks.index(shard.rank), np.searchsorted(self.steps, each.step)] = value(
                shard, each
            )
        return found

    @cached_property
    def collectives(self) -> Matched:
        """The collectives of all ranks, matched by (group, sequence)."""
        # Of gloo, a send begins in the record after it was issued, and its receive may have ended by then.
        device = {shard.rank for shard, each in self._summaries if each.on_device}
        clocks = {rank: clock for rank, clock in self.clocks.items() if rank in device}
        return self._matched.without(backward_pairs(self._matched, clocks))

    @cached_property
    def _matched(self) -> Matched:
        return match_collectives([(s.rank, each.collectives) for s, each in self._summaries])

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """Ranks of the process groups that manifests describe, by name."""
        return {
            str(group["name"]): [int(rank) for rank in group["ranks"]]
            for shard, _ in self._summaries
            for group in shard.manifest.get("groups", ())
        }

    def means_ns(self, values: Array) -> list[int]:
        """Return the mean of a step by rank of values by (rank, step), such as those of parts(); 0 without a step.

        If a rank was killed, only steps that all ranks have count: in later ones, collectives fail.
        """
        if self.killed and len(self._complete):
            values = values[:, self._complete]
        return [int(row[row >= 0].mean()) if (row >= 0).any() else 0 for row in values]

    @cached_property
    def waiting_ns(self) -> Array:
        """Time by (rank, step) for which a rank waited in collectives for the last to come, int64 ns; -1: no step."""
        return self._by_step(self._waiting_ns, ())

    def _waiting_ns(self, shard: Shard, each: RankSummary) -> Array:
        begin, waited = self._waits(shard, each)
        at = np.searchsorted(each.start, begin, side="right") - 1
        inside = (at >= 0) & (begin < np.append(each.end, 0)[at])
        found = np.zeros(len(each.step), np.int64)
        np.add.at(found, at[inside], waited[inside])
        return found

    def _waits(self, shard: Shard, each: RankSummary) -> tuple[Array, Array]:
        """Return begin and ns of a rank's waits for others: in collectives, and the whole of gloo's receives."""
        matched, rows, calls = self.collectives, self._rows_of[shard.rank], each.collectives
        receives = np.array([*(kind == "recv" for kind in calls.kinds), False], np.bool_)[
            calls.kind
        ]
        if each.on_device:
            receives &= calls.sequence == UNMATCHED
        else:  # their duration says when they were issued, not when the other rank came
            rows = rows[~matched.paired[rows]]
        start, end = union_of(calls.start[receives], calls.end[receives])
        return (
            np.concatenate([matched.start[rows], start]),
            np.concatenate([matched.wait_ns[rows], end - start]),
        )

    @cached_property
    def own_ns(self) -> Array:
        """Time by (rank, step) that a rank spent itself: the step without waiting in collectives; -1: no step."""
        duration = self.parts("duration_ns")
        return np.where(duration < 0, -1, np.maximum(duration - self.waiting_ns, 0))

    @cached_property
    def stragglers(self) -> list[lazy.Straggler]:
        """The slow ranks, the most costly first."""
        from fastprof.ranks.replay import own_segments
        from fastprof.ranks.stragglers import find_stragglers

        summaries = [(shard.rank, each) for shard, each in self._summaries]
        segments = own_segments(self.collectives, summaries, self.complete_steps)
        return find_stragglers(np.array(self.ranks, np.int64), self.own_ns, segments)

    def why(self, rank: int) -> list[tuple[str, int]]:
        """Return what a rank does longer than the median rank, as (what, ns a step), most first.

        Compares idle time and the names of computation. Raises errors.ValueError for a rank that was not read.
        """
        if rank not in self.ranks:
            raise errors.ValueError(
                f"rank {rank} was not read. Use one of {number_list(self.ranks)}."
            )
        place = self.ranks.index(rank)
        names = dict(self.name_ns)
        names["idle"] = np.array(self.means_ns(self.parts("idle_ns")))
        gained = {name: values[place] - float(np.median(values)) for name, values in names.items()}
        return sorted(
            ((name, int(ns)) for name, ns in gained.items() if ns > 0), key=lambda each: -each[1]
        )

    @cached_property
    def name_ns(self) -> dict[str, Array]:
        """Time of events by name, but those of communication: mean of a step by rank, float64 ns; nested ones count.

        If a rank was killed, of the steps that all ranks have, as in means_ns().
        """
        found: dict[str, Array] = {}
        steps = np.zeros(len(self.ranks))
        chosen = self.complete_steps if self.killed and len(self._complete) else self.steps
        for shard, each in self._summaries:
            at, own = self.ranks.index(shard.rank), np.isin(each.step, chosen)
            steps[at] += own.sum()
            if not own.all():  # the summary is of all of its steps
                within = [step for step, keep in zip(shard.steps, own, strict=True) if keep]
                events = self.read_later(read_events, shard, "times by name")
                each = each if events is None else summarise(events, within)
            for name, ns in each.busy.items():
                found.setdefault(name, np.zeros(len(self.ranks)))[at] += ns
        return {name: ns / np.maximum(steps, 1) for name, ns in found.items()}

    @cached_property
    def exposed(self) -> ExposedStages:
        """Exposed time by stage and step of `complete_steps`, and the rank charged.

        Stages are STAGES without what a rank waited in their collectives, and then all of that as "waiting".
        """
        from fastprof.ranks.exposed_stages import exposed_stages

        stages = self._by_step(self._stage_ns, (len(STAGES) + 1,))
        return exposed_stages(stages[:, self._complete])

    def _stage_ns(self, shard: Shard, each: RankSummary) -> Array:
        begin, waited = self._waits(shard, each)
        edges = each.stage_edges
        width = edges.shape[1]
        at = np.searchsorted(edges.ravel(), begin, side="right") - 1
        inside = (at >= 0) & (at % width < width - 1)  # not between two steps
        waiting = np.zeros((len(edges), width), np.int64)
        np.add.at(waiting.reshape(-1), at[inside], waited[inside])
        own = np.diff(edges, axis=1)
        taken = np.minimum(waiting[:, :-1], own)  # a collective may go on in the next stage
        return np.concatenate([own - taken, taken.sum(axis=1, keepdims=True)], axis=1)

    @cached_property
    def _complete(self) -> Array:
        return np.flatnonzero((self.parts("duration_ns") >= 0).all(axis=0))

    @property
    def complete_steps(self) -> Array:
        """Numbers of the steps that all ranks have, int64."""
        return self.steps[self._complete]

    @cached_property
    def clocks(self) -> dict[int, RankClock]:
        """The clocks of ranks against the first rank's, by rank; a rank that cannot be compared is absent."""
        manifests = {shard.rank: shard.manifest for shard, _ in reversed(self._summaries)}
        return align_clocks(self._matched, manifests)

    @cached_property
    def violations(self) -> int:
        """Number of collectives that a rank, on corrected time, enters after another has left; 0 is to be expected."""
        return violations(self.collectives, self.clocks)

    def critical_path(self, step: int) -> list[lazy.PathPiece]:
        """Return the critical path of a step over ranks and collectives, in order of time; [] if no rank has the step.

        Its pieces add up to the time from the begin of the first to the end of the last one, on the first rank's clock.
        """
        from fastprof.ranks.critical_path import critical_path

        summaries = [(shard.rank, each) for shard, each in self._summaries]
        return critical_path(self.collectives, self._rows_of, self.clocks, summaries, step)

    def step_graph(self, step: int) -> lazy.StepGraph:
        """Return what a step waited for, as a graph of the hosts' ops, launches, devices' work and collectives.

        Its path() is the critical path by op and rank, and length_if_ns() is how long the step would be if events were
        faster. The first call reads the events of all ranks, which are kept. Ranks whose clock is unknown are left out.
        Raises errors.ValueError for a step that no such rank has. Damaged shards are named in `problems` and left out;
        errors.FormatError: all are damaged, or the job was opened with strict.

            graph = job.step_graph(3)
            print(graph.length_ns, graph.length_if_ns({"aten::mm": 2}))
        """
        from fastprof.ranks.graph_nodes import step_graph

        bounds: dict[int, tuple[int, int]] = {}
        for shard, each in self._summaries:
            if shard.rank in self.clocks and step in each.step:
                at = int(np.searchsorted(each.step, step))
                bounds[shard.rank] = int(each.start[at]), int(each.end[at])
        if not bounds:
            raise errors.ValueError(
                f"no rank with a known clock has step {step}. Use one of job.steps."
            )
        found = {rank: self._shard_rows(rank, step) for rank in bounds}
        rows = {rank: each for rank, each in found.items() if each is not None}
        if not rows:
            raise errors.FormatError(f"{self.folder}: {'; '.join(self.problems)}.")
        return step_graph(rows, self._calls_of, self.clocks, {rank: bounds[rank] for rank in rows})

    def read_later(
        self, read: Callable[[Shard], _Result], shard: Shard, what: str
    ) -> _Result | None:
        """Return read(shard), or None if it raises errors.FormatError: the shard is then named in `problems`.

        what: the answer that it is left out of. Raises errors.FormatError if the job was opened with strict.
        """
        return self._reader.later(read, shard, what)

    def _shard_rows(self, rank: int, step: int) -> ShardRows | None:
        from fastprof.ranks.shard_rows import read_rows

        shard = next(s for s, each in self._summaries if s.rank == rank and step in each.step)
        if shard.path not in self._read_rows:
            self._read_rows[shard.path] = self.read_later(read_rows, shard, "the graphs of steps")
        return self._read_rows[shard.path]

    @cached_property
    def _calls_of(self) -> dict[int, dict[tuple[str, int], tuple[int, str]]]:
        matched = self.collectives
        found: dict[int, dict[tuple[str, int], tuple[int, str]]] = {r: {} for r in self.ranks}
        several = (
            (np.bincount(matched.call) > 1)[matched.call] if len(matched) else matched.call > 0
        )
        for row in np.flatnonzero(several).tolist():
            group = matched.groups[int(matched.group[row])]
            what = f"{matched.kinds[int(matched.kind[row])]} {group}".strip()
            key = group, int(matched.sequence[row])
            found[int(matched.rank[row])][key] = int(matched.call[row]), what
        return found

    @cached_property
    def _rows_of(self) -> dict[int, Array]:
        order = np.argsort(self.collectives.rank, kind="stable")
        edges = np.searchsorted(self.collectives.rank[order], [*self.ranks, self.ranks[-1] + 1])
        return {rank: order[edges[n] : edges[n + 1]] for n, rank in enumerate(self.ranks)}

    @property
    def uncalibrated(self) -> list[int]:
        """Ranks whose clock cannot be compared with the first rank's."""
        return [rank for rank in self.ranks if rank not in self.clocks]

    # ---- rows ----------------------------------------------------------------------------------

    def arrow_dataset(self) -> Any:
        """Return the events of all ranks as a pyarrow.dataset.Dataset: Polars and pandas scan it without loading it."""
        paths, system = self.shard_paths, None
        if is_url(paths[0]):
            system, _ = file_system(paths[0])
            paths = [file_system(path)[1] for path in paths]
        return optional_package("pyarrow.dataset", "ranks").dataset(
            paths, format="parquet", filesystem=system
        )

    def relation(self, connection: Any = None) -> Any:
        """Return the events of all ranks as a DuckDB relation with the columns of a shard.

        connection: of DuckDB; default: its default one. Raises errors.UnavailableError without duckdb.

            job.relation().aggregate("rank, name, sum(duration_ns) AS ns").order("ns DESC").df()
        """
        duckdb = optional_package("duckdb", "ranks")
        return (connection or duckdb).from_arrow(self.arrow_dataset())

    # ---- what is wrong -------------------------------------------------------------------------

    def _unmatched(self) -> list[str]:
        found = []
        if self.collectives.unmatched:
            found.append(
                f"{counted(self.collectives.unmatched, 'collective')} not matched: "
                + " ".join(self._why("collective_groups"))
            )
        found += self._why("processes")
        found += [f"sends and receives: {each}" for each in self._why("peers")]
        if unpaired := self.collectives.unpaired:
            found.append(
                f"{unpaired} sends and receives not paired: the receive ended before the send began. Record all ranks "
                "from the same step, and the runtime's calls on their hosts."
            )
        return found

    def _why(self, name: str) -> list[str]:
        """Return what manifests say is missing, each reason with its ranks."""
        ranks: dict[str, list[int]] = {}
        for shard, _ in self._summaries:
            if reason := shard.manifest["missing"].get(name):
                ranks.setdefault(reason, []).append(shard.rank)
        return [f"rank {number_list(each)}: {reason}" for reason, each in ranks.items()]
