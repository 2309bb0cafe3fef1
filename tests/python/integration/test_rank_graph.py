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
from rank_tables import OP, REDUCE, call, job_of, profiler_step, table_of
from trace_tables import table_of_rows

import fastprof

pytestmark = pytest.mark.integrations
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

SYNC = "cudaDeviceSynchronize"


class Simulation:
    """Random hosts, streams and all-reduces of some ranks. Each task begins when all before it have ended.

    A task: rank, name, ns, the tasks before it, and the name of the op that launched it. Streams 1 and 2 compute, 3
    has the collectives, which may wait for stream 1. recorded: waits are recorded, so that short ones count, too.
    """

    def __init__(self, seed: int, ranks: int, ops: int, recorded: bool = False) -> None:
        self.tasks: list[tuple[int, str, int, list[int], tuple[str, ...]]] = []
        self.recorded, self.called = recorded, [0] * ranks
        self.events: list[list[tuple[int, int, int]]] = [[] for _ in range(ranks)]
        self.ends: list[int] = []
        self.begins: list[int] = []
        self.rows: list[list[tuple[str, str, int, int, int, int, Any]]] = [[] for _ in range(ranks)]
        draw = random.Random(seed)
        host: list[int | None] = [None] * ranks
        streams: list[dict[int, int]] = [{} for _ in range(ranks)]
        self.draw = draw
        for number in range(ops):
            kind = draw.choice(("kernel", "kernel", "reduce", "sync", "op"))
            some = draw.choice((SYNC, "cudaStreamSynchronize", "cudaEventSynchronize"))
            entered, numbers = [], []
            for rank in range(ranks):
                gap = self.add(rank, "", draw.randint(1, 30_000), [host[rank]])
                if kind == "sync":
                    host[rank] = self.synchronise(rank, gap, streams[rank], some)
                    continue
                name = draw.choice(("aten::mm", "aten::add"))
                op = host[rank] = self.add(rank, name, draw.randint(20_000, 90_000), [gap])
                correlation = 0 if kind == "op" else number + 1
                self.row(rank, op, "cpu_op", 0, correlation, None)
                stream = 3 if kind == "reduce" else draw.choice((1, 2))
                before, by = [op], (name,)
                if kind != "op":
                    before = self.waited(rank, op, streams[rank], stream)
                    correlation, host[rank], by = self.launch(rank, op, number + 1)
                    before += [host[rank], streams[rank].get(stream)]
                if kind == "reduce":
                    entered.append(self.add(rank, "enter", 0, before, ("-",)))
                    numbers.append(correlation)
                elif kind == "kernel":
                    name = draw.choice(("gemm", "softmax"))
                    work = self.add(rank, name, draw.randint(20_000, 200_000), before, by)
                    self.row(rank, work, "kernel", stream, -correlation, {})
                    streams[rank][stream] = work
            for rank in range(ranks) if entered else ():
                done = self.add(rank, "all_reduce dp", draw.randint(5_000, 90_000), list(entered))
                self.begins[done] = self.ends[entered[rank]]
                self.row(rank, done, "kernel", 3, -numbers[rank], call("dp", number))
                streams[rank][3] = done
        self.last = [self.synchronise(r, host[r], streams[r]) for r in range(ranks)]

    def add(
        self, rank: int, name: str, ns: int, before: list[int | None], by: tuple[str, ...] = ()
    ) -> int:
        known = [each for each in before if each is not None]
        self.tasks.append((rank, name, ns, known, by))
        self.ends.append(max((self.ends[each] for each in known), default=0) + ns)
        self.begins.append(self.ends[-1] - ns)
        return len(self.tasks) - 1

    def row(
        self, rank: int, task: int, category: str, track: int, link: int, arguments: Any
    ) -> None:
        name = self.tasks[task][1]
        name = "ncclDevKernel_AllReduce" if name == "all_reduce dp" else name
        if self.recorded and link < 0:
            arguments, link = {**arguments, "correlation": -link}, 0
        self.rows[rank].append(
            (name, category, self.begins[task], self.ends[task], track, link, arguments)
        )

    def launch(self, rank: int, op: int, number: int) -> tuple[int, int, tuple[str, ...]]:
        """Return number and task of a launch, and the names that it is in. Recorded ones are calls in the op's row."""
        if not self.recorded:
            return number, op, (self.tasks[op][1],)
        self.called[rank] += 1
        by = (self.tasks[op][1], "cudaLaunchKernel")
        task = self.add(rank, by[1], self.draw.randint(1_000, 5_000), [op], by)
        self.row(rank, task, "cuda_runtime", 0, -self.called[rank], {})
        at = next(n for n, row in enumerate(self.rows[rank]) if row[3] == self.ends[op])
        self.rows[rank][at] = (*self.rows[rank][at][:3], self.ends[task], *self.rows[rank][at][4:])
        return self.called[rank], task, by

    def synchronise(
        self, rank: int, before: int | None, streams: dict[int, int], name: str = SYNC
    ) -> int:
        begin = 0 if before is None else self.ends[before]
        name = name if self.recorded and streams else SYNC
        waited, arguments = list(streams.values()), None
        if self.recorded:
            stream = self.draw.choice(sorted(streams)) if streams else 0
            kind = {"cudaE": "Event Sync", "cudaS": "Stream Sync", "cudaD": "Context Sync"}[
                name[:5]
            ]
            arguments = {"cuda_sync_kind": kind, "stream": stream}
            if name == "cudaStreamSynchronize":
                waited = [streams[stream]]
            elif name == "cudaEventSynchronize":
                number, stream, task = self.event(rank, stream, streams)
                waited = [task]
                arguments |= {"wait_on_stream": stream, "wait_on_cuda_event_record_corr_id": number}
            self.called[rank] += 1
            arguments["correlation"] = self.called[rank]
            self.rows[rank].append((kind, "cuda_sync", begin, begin + 1, stream, 0, arguments))
        done = self.add(rank, name, 20_000, [before, *waited])
        self.begins[done] = begin
        self.row(rank, done, "cuda_runtime", 0, 0, arguments)
        return done

    def event(self, rank: int, stream: int, streams: dict[int, int]) -> tuple[int, int, int]:
        """Return an event of the rank: number of the call that recorded it, stream and the last task before it."""
        self.called[rank] += 1
        self.events[rank].append((self.called[rank], stream, streams[stream]))
        return self.draw.choice(self.events[rank][-3:])

    def waited(self, rank: int, op: int, streams: dict[int, int], own: int) -> list[int | None]:
        """Return work of another stream to wait for, if that takes longer than a launch may: else it is not seen.

        Recorded ones are tasks of the stream itself.
        """
        other = self.draw.choice([1, 2, 3])
        if other == own or other not in streams:
            return []
        if self.recorded:
            number, other, task = self.event(rank, other, streams)
            self.called[rank] += 1
            arguments = {
                "cuda_sync_kind": "Stream Wait Event", "stream": own, "correlation": self.called[rank],
                "wait_on_stream": other, "wait_on_cuda_event_record_corr_id": number,
            }  # fmt: skip
            when = self.ends[op]
            row = ("Stream Wait Event", "cuda_sync", when, when + 1, own, 0, arguments)
            self.rows[rank].append(row)
            streams[own] = self.add(rank, row[0], 0, [streams.get(own), task])
            return []
        ready = max([self.ends[op], *(self.ends[streams[s]] for s in (own,) if s in streams)])
        work = streams[other]
        return [work] if self.ends[work] > ready + 10_000 else []

    def write(self, folder: Path) -> fastprof.ranks.Job:
        for rank, rows in enumerate(self.rows):
            step = ("ProfilerStep#0", "user_annotation", 0, self.ends[self.last[rank]], 0, 0, None)
            every = [step, *rows]
            texts = [None if row[6] is None else json.dumps(row[6]) for row in every]
            table = table_of_rows(
                [row[:4] for row in every],
                coded={"metadata_json": fastprof.table.CodedColumn.encode(texts)},
                track=[row[4] for row in every],
                device_type=[int(row[1] in ("kernel", "cuda_sync")) for row in every],
                device_resource_id=[row[4] for row in every],
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
            faster = wanted in (name, *by) or (wanted == "all_reduce" and name.startswith(wanted))
            start = max((ends[each] for each in before), default=0)
            ends.append(start + (round(ns / factor) if faster else ns))
        return max(ends[each] for each in self.last)


@pytest.mark.parametrize("recorded", [False, True], ids=["inferred", "recorded"])
@pytest.mark.parametrize("seed", range(40))
def test_the_path_is_the_longest_of_all_paths(tmp_path: Path, seed: int, recorded: bool) -> None:
    simulated = Simulation(seed, 2 + seed % 2, 7, recorded)
    graph = simulated.write(tmp_path).step_graph(0)
    worked = [n for n, rows in enumerate(simulated.rows) if any(r[1] == "kernel" for r in rows)]
    assert graph.inferred == ([] if recorded else worked)
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


@pytest.mark.parametrize("recorded", [False, True], ids=["inferred", "recorded"])
@pytest.mark.parametrize("seed", range(20))
def test_a_replayed_step_is_the_simulated_one(tmp_path: Path, seed: int, recorded: bool) -> None:
    simulated = Simulation(seed, 3, 40, recorded)
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


def kineto(name: str, category: str, pid: int, tid: int, ts: int, dur: int, **args: Any) -> Any:
    return {
        "ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
        "args": {key.replace("External_", "External "): value for key, value in args.items()},
    }  # fmt: skip


@pytest.mark.parametrize("recorded", [True, False])
def test_waits_in_a_trace_of_torch(tmp_path: Path, recorded: bool) -> None:
    """The event is recorded between two kernels of one op. Kernels have the op's id, as PyTorch writes it, not only
    the number of their launch. A kernel of a third stream ends together with the one that is waited for."""
    host = ("cuda_runtime", 9, 9)
    events = [
        kineto("ProfilerStep#0", "user_annotation", 9, 9, 0, 700),
        kineto("aten::first", "cpu_op", 9, 9, 1, 59, External_id=1),
        kineto("cudaLaunchKernel", *host, 5, 5, correlation=11, External_id=1),
        kineto("cudaEventRecord", *host, 20, 1, correlation=12, External_id=1),
        kineto("cudaLaunchKernel", *host, 30, 5, correlation=13, External_id=1),
        kineto("cudaStreamWaitEvent", *host, 40, 1, correlation=14, External_id=1),
        kineto("cudaLaunchKernel", *host, 50, 5, correlation=15, External_id=1),
        kineto("cudaDeviceSynchronize", *host, 70, 600, correlation=16),
        kineto("one", "kernel", 0, 7, 15, 200, correlation=11, stream=7, device=0, External_id=1),
        kineto("four", "kernel", 0, 8, 20, 195, correlation=10, stream=8, device=0),
        kineto("two", "kernel", 0, 7, 215, 300, correlation=13, stream=7, device=0, External_id=1),
        kineto(
            "three", "kernel", 0, 20, 216, 440, correlation=15, stream=20, device=0, External_id=1
        ),
    ]
    wait = {"stream": 20, "device": 0, "context": 1, "wait_on_cuda_event_id": 3}
    wait |= {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 12}
    if recorded:
        events += [
            kineto("Stream Wait Event", "cuda_sync", 0, 20, 40, 1, correlation=14, **wait),
            kineto(
                "Context Sync", "cuda_sync", 0, -1, 70, 600, correlation=16, stream=-1, device=0
            ),
        ]
    trace = {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}}
    (tmp_path / "r0.json").write_text(json.dumps({**trace, "traceEvents": events}))
    job = fastprof.ranks.open(tmp_path)
    graph = job.step_graph(0)
    spent = [(each.name, each.end_ns - each.start_ns) for each in graph.path()]
    if recorded:
        assert spent[-5:-2] == [("one", 200_000), ("three", 1_000), ("three", 440_000)]
    assert graph.inferred == ([] if recorded else [0]) and "two" not in dict(spent)
    assert graph.length_ns - graph.length_if_ns({"one": 2}) == (100_000 if recorded else 0)
    printed = python("-m", "fastprof", "ranks", ".", cwd=tmp_path, check=True).stdout
    assert ("inferred from times on rank 0" in printed) is not recorded


@pytest.mark.parametrize(("devices", "found"), [((1,), "on 1"), ((1, 2), None), ((), "on 0")])
def test_a_stream_that_waits_for_its_own_number(
    tmp_path: Path, devices: tuple[int, ...], found: str | None
) -> None:
    """It waits for another device, whose number is not recorded: unknown if streams of several devices fit."""
    rows: list[Any] = []  # name, category, begin, end, device, arguments
    for number in (0, *devices):
        start = 10 + number
        rows.append(("cudaLaunchKernel", "cuda_runtime", start, start + 1, 0, {}))
        rows.append((f"on {number}", "kernel", start + 10, start + 50, number, {}))
        rows[-2][-1]["correlation"] = rows[-1][-1]["correlation"] = 1 + number
    event = {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 8, "correlation": 9}
    rows.append(("Stream Wait Event", "cuda_sync", 20, 21, 0, event))
    table = table_of_rows(
        [row[:4] for row in rows],
        coded={
            "metadata_json": fastprof.table.CodedColumn.encode([json.dumps(r[5]) for r in rows])
        },
        device_type=[int(row[1] != "cuda_runtime") for row in rows],
        device_index=[row[4] for row in rows],
        device_resource_id=[7 * (row[1] != "cuda_runtime") for row in rows],
    )
    fastprof.ranks.write(table, tmp_path, rank=0, world_size=1)
    shard = parquet.read_table(tmp_path / "rank-00000.parquet").to_pylist()
    waited = next(row["waits_for"] for row in shard if row["category"] == "cuda_sync")
    assert (shard[waited]["name"] if waited >= 0 else None) == found


def test_a_step_without_any_time(tmp_path: Path) -> None:
    job = job_of(tmp_path, [table_of([(profiler_step(0), 5, 5), (OP, 5, 5)])])
    assert job.step_graph(0).length_ns == 0 and job.step_graph(0).path() == []
    with pytest.raises(fastprof.errors.ValueError, match="there is nothing to make faster"):
        job.step_graph(0).length_if_ns({"absent": 2})
    printed = python("-m", "fastprof", "ranks", ".", cwd=tmp_path, check=True).stdout
    assert "1 step" in printed


def test_names_of_a_trace_do_not_control_the_terminal(tmp_path: Path) -> None:
    name = "\x1b[31mred\nline"
    rows = [(profiler_step(n), 1000 * n, 1000 * n + 900) for n in (0, 1)]
    rows += [((name, "cpu_op"), 1000 * n, 1000 * n + 200) for n in (0, 1)]
    rows += [(REDUCE, 1000 * n + 300, 1000 * n + 800) for n in (0, 1)]
    calls = [None] * 4 + [call(name, n) for n in (0, 1)]
    job_of(tmp_path, [table_of(rows, calls)])
    options = ("-m", "fastprof", "ranks", ".", "--what-if", f"{name}=2")
    printed = python(*options, cwd=tmp_path, check=True).stdout
    assert "\x1b" not in printed and "\u241b[31mred\u240aline 2 times faster" in printed


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
    assert "\ncritical path of 1 step: " in printed
    for wrong in ("aten::mm", "=2", "aten::mm=0", "absent=2"):
        done = python("-m", "fastprof", "ranks", "r", "--what-if", wrong, cwd=tmp_path)
        assert done.returncode != 0 and "Traceback" not in done.stderr
    job: Any = fastprof.ranks.open(tmp_path / "r")
    for what_if in ({"aten::mm": 2}, [("aten::mm", "2")], ["aten::mm"], "aten::mm=2", None):
        with pytest.raises(fastprof.errors.ValueError, match="Pass pairs of a name"):
            fastprof.ranks.export_html(job, tmp_path / "r.html", what_if=what_if)
