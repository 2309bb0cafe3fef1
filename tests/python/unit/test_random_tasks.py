# SPDX-License-Identifier: Apache-2.0
"""Random interleavings of tasks against an oracle: what each task itself noted of its ranges."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from task_trees import check_tasks

import fastprof
from fastprof import record_function


class Oracle:
    """Names every range uniquely, and notes in which range of the same task it was begun."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.parents: dict[str, str | None] = {}
        self.task_of: dict[str, str] = {}
        self.open: dict[Any, list[str]] = {}
        self.tasks = 0

    @contextlib.contextmanager
    def range(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        stack = self.open.setdefault(task, [])
        name = f"range {len(self.parents)}"
        self.parents[name] = stack[-1] if stack else None
        self.task_of[name] = task.get_name()
        stack.append(name)
        try:
            with record_function(name):
                yield
        finally:
            stack.remove(name)

    def spawn(self, depth: int) -> asyncio.Task[None]:
        self.tasks += 1
        return asyncio.create_task(self.body(depth), name=f"task {self.tasks}")

    async def body(self, depth: int) -> None:
        children: list[asyncio.Task[None]] = []
        try:
            await self.actions(depth, children)
        finally:
            for child in children:
                if self.random.random() < 0.3:
                    child.cancel()
            await asyncio.gather(*children, return_exceptions=True)

    async def actions(self, depth: int, children: list[asyncio.Task[None]]) -> None:
        for _ in range(self.random.randrange(1, 5)):
            action = self.random.choice(
                ("nest", "nest", "sleep", "turn", "plain", "spawn", "generate", "fail", "wait")
            )
            if action == "nest":
                with self.range():
                    await self.actions(depth, children)
            elif action == "sleep":
                await asyncio.sleep(self.random.random() * 1e-4)
            elif action == "turn":
                await asyncio.sleep(0)
            elif action == "plain":
                with self.range():
                    pass
            elif action == "spawn" and depth < 3 and self.tasks < 40:
                children.append(self.spawn(depth + 1))
            elif action == "generate":
                async with contextlib.aclosing(self.generator()) as numbers:
                    async for _ in numbers:
                        with self.range():
                            await asyncio.sleep(0)
            elif action == "fail":
                with contextlib.suppress(ValueError):
                    with self.range():
                        await asyncio.sleep(0)
                        raise ValueError
            elif action == "wait" and children:
                await asyncio.wait(children, return_when=asyncio.FIRST_COMPLETED)
            if len(self.parents) > 400:
                return

    async def generator(self) -> AsyncIterator[int]:
        with self.range():
            for number in range(2):
                await asyncio.sleep(0)
                yield number


@pytest.mark.parametrize("seed", range(40))
def test_parents_are_those_of_the_task(seed: int) -> None:
    oracle = Oracle(seed)

    async def main() -> None:
        await asyncio.gather(*(oracle.spawn(0) for _ in range(3)), return_exceptions=True)

    with fastprof.profile() as profile:
        asyncio.run(main())
    check_tasks(profile)
    track = {t.id: t.name for t in profile.event_table.tracks}
    found = {
        event.name: (
            event.cpu_parent.name if event.cpu_parent is not None else None,
            track[event.thread],
        )
        for event in profile.events()
    }
    assert found == {
        name: (parent, oracle.task_of[name]) for name, parent in oracle.parents.items()
    }
