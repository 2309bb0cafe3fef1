# SPDX-License-Identifier: Apache-2.0
"""Traces of the JS Self-Profiling API, as JSON: https://wicg.github.io/js-self-profiling/#the-profilertrace-dictionary."""

from __future__ import annotations

from fastprof.base import errors
from fastprof.importers.sampled.stack_rows import StackRows, StackTree, malformed
from fastprof.importers.sampled.whole_file import json_object
from fastprof.importers.source import Source
from fastprof.model.table import EventTable

__all__ = ["read_self_profile"]


def read_self_profile(source: Source) -> EventTable:
    """Return the rows of a trace: one thread. Times are those of the page's clock; samples without a stack are idle."""
    document = json_object(source)
    rows = StackRows(source, "self-profile")
    with malformed(source):
        resources = document.get("resources", ())
        frames = [
            rows.frame(
                frame.get("name", ""),
                resources[frame["resourceId"]] if "resourceId" in frame else "",
                frame.get("line", 0),
            )
            for frame in document["frames"]
        ]
        tree = StackTree()
        nodes: list[int] = []
        for number, stack in enumerate(document["stacks"]):
            caller = stack.get("parentId")
            if caller is not None and not 0 <= caller < number:
                raise errors.FormatError(f"the caller of stack {number} does not precede it")
            nodes.append(
                tree.child(-1 if caller is None else nodes[caller], frames[stack["frameId"]])
            )
        samples = [
            (
                round(1e6 * sample["timestamp"]),
                nodes[sample["stackId"]] if "stackId" in sample else -1,
            )
            for sample in document["samples"]
        ]
        # The API does not say how long the last sample lasted.
        end_ns = 2 * samples[-1][0] - samples[-2][0] if len(samples) > 1 else 0
        rows.add_samples(rows.track("main thread"), tree, samples, end_ns)
        return rows.finish()
