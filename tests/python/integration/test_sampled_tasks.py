# SPDX-License-Identifier: Apache-2.0
"""Sampled asyncio tasks: their shares of CPU time, where suspended ones wait, and that waits are no CPU time."""

import asyncio
import json
import random

import numpy as np
import pytest
from sampled_programs import sampled, spin

import fastprof
from fastprof.decode.sample_rows import with_samples
from fastprof.model.sampled_stacks import AWAITS_STATE, SampledStacks


def test_shares_of_asyncio_tasks():
    """Two tasks with 3/4 and 1/4 of the CPU time of the tasks; chi-square, bound far beyond chance."""

    async def work(seconds):
        for _ in range(20):
            spin(seconds)
            await asyncio.sleep(0)

    async def main():
        long = asyncio.create_task(work(0.03), name="long")
        await asyncio.gather(long, asyncio.create_task(work(0.01), name="short"))

    def run():
        spin(0.2)
        asyncio.run(main())

    samples = sampled(run).samples()
    counts = {s.name: s.own for s in samples.shares("task", mode="cpu")}
    size = counts["long"] + counts["short"]
    expected = {"long": 0.75 * size, "short": 0.25 * size}
    chi_square = sum((counts[name] - n) ** 2 / n for name, n in expected.items())
    assert size > 50 and chi_square < 40, counts
    assert counts["(outside of tasks)"] > 20
    assert sum(counts.values()) == sum(s.own for s in samples.shares(mode="cpu"))


def test_where_suspended_tasks_wait():
    """Tasks whose chains of awaits are known: each sample of a task has its chain, and threads have no sample more."""

    class Awaitable:
        def __await__(self):
            yield from asyncio.Event().wait().__await__()

    async def inner():
        await asyncio.get_running_loop().create_future()

    async def outer():
        await inner()

    async def generates():
        await inner()
        yield

    async def iterates():
        async for _ in generates():
            pass

    async def custom():
        await Awaitable()

    async def main():
        tasks = [asyncio.create_task(f(), name=f.__name__) for f in (outer, iterates, custom)]
        tasks += [asyncio.create_task(inner()) for _ in range(20)]
        for _ in range(150):
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    prof = sampled(lambda: asyncio.run(main()), 200, sample_tasks=True)
    samples = prof.samples()
    stacks = samples.stacks
    chains = {}
    for run in range(len(stacks.node)):
        if stacks.is_task[run] and stacks.count[run]:
            codes = (stacks.codes[stacks.code[node]][0] for node in stacks.path(stacks.node[run]))
            chain = [name.rpartition(".")[2] for name in codes][::-1]
            if not chain[-1].startswith("(ready"):
                name = stacks.threads[stacks.thread[run]][1].removeprefix("task ")
                chains.setdefault(name.rpartition(".")[2], set()).add(tuple(chain))
    expected = {
        "main": {("main", "sleep")},
        "outer": {("outer", "inner")},
        "iterates": {("iterates", "generates", "inner")},
        "custom": {("custom", "__await__", "wait")},
        "inner": {("inner",)},
    }
    chains["main"].discard(("main",))  # while it waits for the cancelled tasks
    # Packages that other tests use may have left tasks in the process.
    assert {name: chains.get(name) for name in expected} == expected
    shares = {s.name.rpartition(".")[2]: s for s in samples.shares(mode="awaits")}
    assert shares["inner"].own > 10 * shares["outer"].total > 0
    assert len(samples) == sum(s.own for s in samples.shares("wait"))
    assert any(track.name == "task outer" for track in prof.event_table.tracks)
    # 23 tasks wait most of 1.5 s each, and none of it is time on a CPU of a thread.
    duration_s = (prof.event_table.t1_ns - prof.event_table.t0_ns) / 1e9
    assert prof.events().self_cpu_time_total / 1e6 < stacks.threads_size * duration_s + 1
    with pytest.raises(ValueError, match="sample_hz=1000"):
        fastprof.profile(sample_tasks=True)


def test_sampling_tasks_leaves_the_programs_random_numbers_alone():
    random.seed(7)
    expected = random.random()
    random.seed(7)
    with fastprof.profile(sample_hz=1000, sample_tasks=True):
        asyncio.run(asyncio.sleep(0.1))
    assert random.random() == expected


def test_waits_of_tasks_are_no_cpu_time(tmp_path):
    """A thread that runs for 4 ms, and two tasks that wait for 7 ms each; a foreign track named as tasks are."""
    stacks = SampledStacks(
        hz=1000,
        first_ns=np.array([1_000_000] * 3),
        last_ns=np.array([4_000_000, 7_000_000, 7_000_000]),
        thread=np.arange(3),
        node=np.array([0, 2, 2]),
        count=np.array([4, 7, 7]),
        state=np.array([2, AWAITS_STATE, AWAITS_STATE]),
        parent=np.array([-1, -1, 1]),
        code=np.array([0, 1, 2]),
        line=np.array([1, 2, 3]),
        codes=(("runs", "a.py", 1), ("outer", "a.py", 2), ("waits", "a.py", 3)),
        threads=((7, "MainThread"), (0, "task a"), (0, "task b")),
        counts={},
        tasks_hz=50.0,
    )
    empty = fastprof.EventTable({"start_ns": [], "end_ns": [], "site": [], "parent": []}, sites=())
    table = with_samples(empty, stacks)
    tables = [table]
    for name in ("a.fastprof", "a.json", "a.pftrace", "a.gecko.json"):
        table.export(str(tmp_path / name))
        tables.append(fastprof.load(tmp_path / name))
    for each in tables:
        events = each.events()
        averages = events.key_averages(include_python_functions=True)
        assert events.self_cpu_time_total == averages.self_cpu_time_total == 4000
        assert {e.name: e.self_cpu_time_total for e in events if e.self_cpu_time_total} == {
            "runs (a.py:1)": 4000
        }
    named = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 0, "args": {"name": "task worker"}}
    op = {"ph": "X", "name": "op", "cat": "cpu_op", "pid": 1, "tid": 0, "ts": 0, "dur": 1000}
    (tmp_path / "b.json").write_text(json.dumps({"traceEvents": [named, op]}))
    assert fastprof.load(tmp_path / "b.json").events().self_cpu_time_total == 1000
