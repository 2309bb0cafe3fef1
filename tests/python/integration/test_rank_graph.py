# SPDX-License-Identifier: Apache-2.0
"""The critical path by op and rank, and steps with faster ops, against simulated ranks whose graph is known."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import python
from rank_tables import call
from trace_tables import table_of_rows

import fastprof

pytestmark = pytest.mark.integrations
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

SYNC = "cudaDeviceSynchronize"


class Simulation:
    """Random hosts, streams and all-reduces of some ranks. Each task begins when all before it have ended.

    A task: rank, name, ns, the tasks before it, and the name of the op that launched it. Streams 1 and 2 compute, 3
    has the collectives, which may wait for stream 1.
    """

    def __init__(self, seed: int, ranks: int, ops: int) -> None:
        self.tasks: list[tuple[int, str, int, list[int], str]] = []
        self.ends: list[int] = []
        self.rows: list[list[tuple[str, str, int, int, int, int, Any]]] = [[] for _ in range(ranks)]
        draw = random.Random(seed)
        host: list[int | None] = [None] * ranks
        streams: list[dict[int, int]] = [{} for _ in range(ranks)]
        self.draw = draw
        for number in range(ops):
            kind = draw.choice(("kernel", "kernel", "reduce", "sync", "op"))
            entered = []
            for rank in range(ranks):
                gap = self.add(rank, "", draw.randint(1, 30_000), [host[rank]])
                if kind == "sync":
                    host[rank] = self.synchronise(rank, gap, streams[rank])
                    continue
                name = draw.choice(("aten::mm", "aten::add"))
                op = host[rank] = self.add(rank, name, draw.randint(20_000, 90_000), [gap])
                correlation = 0 if kind == "op" else number + 1
                self.row(rank, op, "cpu_op", 0, correlation, None)
                if kind == "reduce":
                    entered.append(self.enter(rank, op, streams[rank]))
                elif kind == "kernel":
                    stream = draw.choice((1, 2))
                    before = [op, streams[rank].get(stream), self.waited(op, streams[rank], stream)]
                    name = draw.choice(("gemm", "softmax"))
                    work = self.add(
                        rank, name, draw.randint(20_000, 200_000), before, self.tasks[op][1]
                    )
                    self.row(rank, work, "kernel", stream, -correlation, None)
                    streams[rank][stream] = work
            for rank in range(ranks) if entered else ():
                done = self.add(rank, "all_reduce dp", draw.randint(5_000, 90_000), list(entered))
                row = (self.ends[entered[rank]], self.ends[done])
                self.rows[rank].append(
                    ("ncclDevKernel_AllReduce", "kernel", *row, 3, -number - 1, call("dp", number))
                )
                streams[rank][3] = done
        self.last = [self.synchronise(r, host[r], streams[r]) for r in range(ranks)]

    def add(self, rank: int, name: str, ns: int, before: list[int | None], by: str = "") -> int:
        known = [each for each in before if each is not None]
        self.tasks.append((rank, name, ns, known, by))
        self.ends.append(max((self.ends[each] for each in known), default=0) + ns)
        return len(self.tasks) - 1

    def row(
        self, rank: int, task: int, category: str, track: int, link: int, arguments: Any
    ) -> None:
        end = self.ends[task]
        _, name, ns, _, _ = self.tasks[task]
        self.rows[rank].append((name, category, end - ns, end, track, link, arguments))

    def synchronise(self, rank: int, before: int | None, streams: dict[int, int]) -> int:
        done = self.add(rank, SYNC, 20_000, [before, *streams.values()])
        begin = 0 if before is None else self.ends[before]
        self.rows[rank].append((SYNC, "cuda_runtime", begin, self.ends[done], 0, 0, None))
        return done

    def waited(self, op: int, streams: dict[int, int], own: int) -> int | None:
        """Return work of another stream to wait for, if that takes longer than a launch may: else it is not seen."""
        other = self.draw.choice([1, 2, 3])
        ready = max([self.ends[op], *(self.ends[streams[s]] for s in (own,) if s in streams)])
        work = streams.get(other)
        return (
            work if other != own and work is not None and self.ends[work] > ready + 10_000 else None
        )

    def enter(self, rank: int, op: int, streams: dict[int, int]) -> int:
        return self.add(rank, "enter", 0, [op, streams.get(3), self.waited(op, streams, 3)], "-")

    def write(self, folder: Path) -> fastprof.ranks.Job:
        for rank, rows in enumerate(self.rows):
            step = ("ProfilerStep#0", "user_annotation", 0, self.ends[self.last[rank]], 0, 0, None)
            every = [step, *rows]
            texts = [None if row[6] is None else json.dumps(row[6]) for row in every]
            table = table_of_rows(
                [row[:4] for row in every],
                coded={"metadata_json": fastprof.table.CodedColumn.encode(texts)},
                track=[row[4] for row in every],
                device_type=[int(row[1] == "kernel") for row in every],
                external_id=[max(row[5], 0) for row in every],
                linked_correlation_id=[max(-row[5], 0) for row in every],
            )
            path = Path(fastprof.ranks.write(table, folder, rank=rank, world_size=len(self.rows)))
            clock = {key: {"realtime_ns": 1, "monotonic_ns": 1} for key in ("start", "end")}
            path.write_text(json.dumps({**json.loads(path.read_text()), "clock": clock}))
        return fastprof.ranks.open(folder)

    def paths(self, task: int) -> Iterator[tuple[int, Counter[tuple[int, str]]]]:
        """Yield length and ns by (rank, name) of every path that ends with a task: the oracle."""
        rank, name, ns, before, _ = self.tasks[task]
        own = Counter({(rank, name): ns})
        if not before:
            yield ns, own
        for each in before:
            for length, spent in self.paths(each):
                yield length + ns, spent + own

    def length_if(self, wanted: str, factor: float) -> int:
        ends: list[int] = []
        for _, name, ns, before, by in self.tasks:
            faster = wanted in (name, by) or (wanted == "all_reduce" and name.startswith(wanted))
            start = max((ends[each] for each in before), default=0)
            ends.append(start + (round(ns / factor) if faster else ns))
        return max(ends[each] for each in self.last)


@pytest.mark.parametrize("seed", range(40))
def test_the_path_is_the_longest_of_all_paths(tmp_path: Path, seed: int) -> None:
    simulated = Simulation(seed, 2 + seed % 2, 7)
    graph = simulated.write(tmp_path).step_graph(0)
    length = max(simulated.ends[each] for each in simulated.last)
    path = graph.path()
    assert graph.length_ns == length == sum(each.end_ns - each.start_ns for each in path)
    found: Counter[tuple[int, str]] = Counter()
    for each in path:
        assert each.what != "delay"
        found[each.rank, each.name] += each.end_ns - each.start_ns
    ways = [each for last in simulated.last for each in simulated.paths(last)]
    longest = [+spent for total, spent in ways if total == length]
    assert max(total for total, _ in ways) == length and found in longest


@pytest.mark.parametrize("seed", range(20))
def test_a_replayed_step_is_the_simulated_one(tmp_path: Path, seed: int) -> None:
    simulated = Simulation(seed, 3, 40)
    graph = simulated.write(tmp_path).step_graph(0)
    known = {task[1] for task in simulated.tasks}
    for name in {"aten::mm", "aten::add", "gemm", "softmax", "all_reduce", SYNC}:
        for factor in (1, 1.5, 4, 0.5):
            if name in known or (name == "all_reduce" and "all_reduce dp" in known):
                assert graph.length_if_ns({name: factor}) == simulated.length_if(name, factor)
    with pytest.raises(fastprof.errors.ValueError, match="no event of the step"):
        graph.length_if_ns({"aten::absent": 2})
    with pytest.raises(fastprof.errors.ValueError, match="above 0"):
        graph.length_if_ns({"aten::mm": 0})


def test_the_command_prints_path_and_what_if(tmp_path: Path) -> None:
    simulated = Simulation(3, 2, 40)
    simulated.write(tmp_path / "r")
    length = max(simulated.ends[each] for each in simulated.last)
    options = ("--what-if", "aten::*=2", "--what-if", "all_reduce=4")
    command = ("-m", "fastprof", "ranks", "r", *options)
    values = json.loads(python(*command, "--as-json", cwd=tmp_path, check=True).stdout)
    assert abs(sum(each["ns"] for each in values["path_by_op"]) - length) <= length / 1000
    ops, reduces, both = values["what_if"]
    assert both["step_ns"] == length and reduces["new_step_ns"] == simulated.length_if(
        "all_reduce", 4
    )
    assert both["new_step_ns"] < min(ops["new_step_ns"], reduces["new_step_ns"])
    printed = python(*command, cwd=tmp_path, check=True).stdout
    assert "all_reduce 4 times faster: steps of" in printed and "critical path by op" in printed
    for wrong in ("aten::mm", "=2", "aten::mm=0", "absent=2"):
        done = python("-m", "fastprof", "ranks", "r", "--what-if", wrong, cwd=tmp_path)
        assert done.returncode != 0 and "Traceback" not in done.stderr
