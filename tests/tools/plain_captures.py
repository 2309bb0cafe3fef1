# SPDX-License-Identifier: Apache-2.0
"""Hand-made captures, and a capture whose details NumPy finds, which is the oracle of the native search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof import _core
from fastprof.base.native_numbers import DetailType
from fastprof.base.record_scope import ENGINE_RANGE_PREFIX
from fastprof.model.columns import EventFlag
from fastprof.model.sites import Site, SiteTable

Array: TypeAlias = NDArray[Any]
Blocks: TypeAlias = Iterator[tuple[Array, Array]]

_TEXTS = {
    "stack": DetailType.PYTHON_STACK,
    "modules": DetailType.MODULES,
    "json": DetailType.JSON,
    "overload": DetailType.OVERLOAD,
}
_NUMBERS = ("sequence_nr", "fwd_thread", "record_function_id", "node_id")


def capture_of(
    sites: Sequence[Site],
    payload: Sequence[int],
    words: Sequence[int],
    strings: Sequence[str] = (),
    **columns: Any,
) -> _core.Capture:
    """Return a capture of finished rows of 5 ns, 10 ns apart, with this payload. columns: replacements of the defaults.

    Unless replaced, site and track are 0. There are two tracks.
    """
    size = len(payload)
    given: dict[str, Any] = {
        "start_ns": np.arange(size) * 10, "site": np.zeros(size), "track": np.zeros(size),
        "parent": np.full(size, -1), "payload": payload, "kind": np.zeros(size),
        "flags": np.full(size, int(EventFlag.FINISHED)),
        "payload_words": np.array(words, np.uint64),
        "cross_thread_end_row": [], "cross_thread_end_track": [], **columns,
    }  # fmt: skip
    given.setdefault("end_ns", np.asarray(given["start_ns"]) + 5)
    return _core.capture_of(
        columns=given,
        sites=[tuple(site) for site in sites],
        tracks=[(1, 1, 11, "a", True), (2, 1, 12, "b", True)],
        strings=list(strings), t0_ns=0, t1_ns=10**6, clock_error_ns=0, pid=1, process_name="test", dropped={},
    )  # fmt: skip


class WithoutKernels:
    """A capture whose detail blocks NumPy finds: the first block of all rows, then the second, and so on."""

    def __init__(self, capture: Any) -> None:
        self._capture = capture
        self._columns = dict(capture.columns())
        fields = capture.sites()
        self._sites = SiteTable(fields.pop("name"), **fields)
        self._words = np.asarray(capture.payload_words())
        self._size = len(self._columns["site"])
        self._blocks = list(self._find())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._capture, name)

    def find_blocks(self, types: Sequence[int]) -> list[tuple[Array, Array]]:
        found = [list(self._of(kind)) for kind in types]
        none = np.zeros(0, np.int64)
        joined = [(*map(np.concatenate, zip(*of, strict=True)),) or (none, none) for of in found]
        return [(rows[np.argsort(rows)], at[np.argsort(rows)]) for rows, at in joined]

    def read_details(self, pair_sites: Sequence[bool]) -> dict[str, Any]:
        found: dict[str, Any] = self._numbers()
        for name, kind in _TEXTS.items():
            if (texts := self._texts(kind)) is not None:
                found[name] = texts
        ((rows, at),) = self.find_blocks([DetailType.OP_INPUTS])
        if not len(rows):
            return found
        count = ((self._words[at - 1] >> np.uint64(16)) & np.uint64(0xFFFF)).astype(np.int64)
        blocks = [tuple(self._words[a : a + n].tolist()) for a, n in zip(at, count, strict=True)]
        code_of = {block: code for code, block in enumerate(dict.fromkeys(blocks))}
        codes = np.zeros(self._size, np.int32)
        codes[rows] = [code_of[block] + 1 for block in blocks]
        site = self._columns["site"][rows].tolist()
        pairs = set(zip(site, (codes[rows] - 1).tolist(), strict=True))
        chosen = sorted(pair for pair in pairs if pair_sites and pair_sites[pair[0]])
        found["inputs"] = codes, [list(block) for block in code_of], chosen
        return found

    def flops_of(self, inputs: Array, site_inputs: Any, estimates: Any, wrappers: Any) -> Array:
        estimate = dict(zip(site_inputs, estimates, strict=True))
        site, parent = self._columns["site"], self._columns["parent"]
        pairs = zip(site.tolist(), (inputs - 1).tolist(), strict=True)
        flops = np.array([estimate.get(pair, 0.0) for pair in pairs])
        is_wrapper = np.array(wrappers, np.bool_)[site]
        at = parent[np.flatnonzero((flops > 0) & ~is_wrapper)]
        while len(at):  # a wrapper of counted ops is not counted
            at = np.unique(at[at >= 0])
            flops[at[is_wrapper[at]]] = 0.0
            at = parent[at]
        return flops

    def _find(self) -> Iterator[tuple[int, Array, Array]]:
        """Yield (type, rows, index of the first content word) of all blocks, one position at a time."""
        rows = np.flatnonzero(self._columns["flags"] & EventFlag.DETAIL)
        if not len(rows):
            return
        arguments = np.array([len(names) for names in self._sites.field("arg_names")], np.int64)
        at = self._columns["payload"][rows].astype(np.int64)
        at += arguments[self._columns["site"][rows]]
        last = at + 1 + (self._words[at] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        at += 1
        while len(rows):
            inside = at < last
            rows, at, last = rows[inside], at[inside], last[inside]
            block = self._words[at]
            kinds = (block & np.uint64(0xFFFF)).astype(np.int64)
            counts = ((block >> np.uint64(16)) & np.uint64(0xFFFF)).astype(np.int64)
            known = kinds != 0
            for kind in np.unique(kinds[known]):
                chosen = kinds == kind
                if kind == DetailType.OP_INPUTS_REF:
                    shared = (block[chosen] >> np.uint64(32)).astype(np.int64)
                    yield int(DetailType.OP_INPUTS), rows[chosen], shared + 1
                else:
                    yield int(kind), rows[chosen], at[chosen] + 1
            rows, at, last = rows[known], at[known] + 1 + counts[known], last[known]

    def _of(self, kind: int) -> Blocks:
        return ((rows, at) for found, rows, at in self._blocks if found == kind)

    def _numbers(self) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for rows, at in self._of(DetailType.OP):
            # An op has the first `count` of sequence number, forward thread, record function id, node.
            count = (self._words[at - 1] >> np.uint64(16)) & np.uint64(0xFFFF)
            for name, word in zip(_NUMBERS, (0, 1, 2, 3), strict=True):
                given = count > word
                self._gather(found, name, rows[given], at[given] + word)
        self._complete_links(found)
        return found

    def _gather(self, found: dict[str, Array], name: str, rows: Array, at: Array) -> None:
        """Store the words at `at` in a column, which is created with its first valid value."""
        values = self._words[at].view(np.int64)
        counts_from_one = name in ("fwd_thread", "record_function_id")
        given = values > 0 if counts_from_one else values >= 0
        if given.any():
            dtype: Any = np.int32 if name == "node_id" else np.int64
            none = 0 if name == "record_function_id" else -1
            column = found.setdefault(name, np.full(self._size, none, dtype))
            column[rows[given]] = values[given]

    def _complete_links(self, found: dict[str, Array]) -> None:
        """Copy a backward function's numbers to the engine's range around it, as PyTorch does.

        Rows without a sequence number lose their forward thread (AccumulateGrad sets its own).
        """
        if "fwd_thread" not in found:
            return
        site, parent = self._columns["site"], self._columns["parent"]
        forward = found["fwd_thread"]
        sequence = found.setdefault("sequence_nr", np.full(self._size, -1, np.int64))
        forward[sequence < 0] = -1
        names = self._sites.names
        wrapper = np.array([name.startswith(ENGINE_RANGE_PREFIX) for name in names], np.bool_)
        rows = np.flatnonzero(forward > 0)
        parents = parent[rows]
        rows, parents = rows[parents >= 0], parents[parents >= 0]
        inside = wrapper[site[parents]]
        rows, parents = rows[inside], parents[inside]
        sequence[parents], forward[parents] = sequence[rows], forward[rows]

    def _texts(self, kind: int) -> tuple[Array, list[int]] | None:
        """Return (code by row, text index by code) of the blocks that contain a text's index."""
        blocks = list(self._of(kind))
        if not blocks:
            return None
        rows = np.concatenate([rows for rows, _ in blocks])
        at = np.concatenate([at for _, at in blocks])
        indices, which = np.unique(self._words[at].astype(np.int64), return_inverse=True)
        codes = np.full(self._size, -1, np.int32)
        codes[rows] = which.reshape(-1)
        return codes, indices.tolist()
