# SPDX-License-Identifier: Apache-2.0
"""Inputs of ops: Python's decoder and the C++ one, which writes Chrome traces, read the same from the same words.

Covers every kind of input with every bit of its head, every dtype, nested lists, and blocks that are truncated
anywhere. `shown()` and `members()` contain the intended differences between the two.
"""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_captures import capture_of

from fastprof.base.native_numbers import DetailType, InputBit, InputKind
from fastprof.decode.op_inputs import DTYPE_NAMES, OpInputs, decode_op_inputs
from fastprof.exporters.trace_writers import write_chrome_capture
from fastprof.model.sites import Site
from fastprof.model.table import EventFlag

SHOWN_TENSORS = (
    30  # op_inputs_text.hpp: a longer list is shown as this many values, "...", and the last value
)
INPUTS = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs")


# ---- the grammar, written from csrc/include/fastprof/payload/op_inputs/op_inputs.hpp --------------


def head(kind: InputKind, bits: int = 0, high: int = 0) -> int:
    return int(kind) | bits | high << 32


def unsigned(value: int) -> int:
    return value & 2**64 - 1


def bits_of(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def numbers(values: Sequence[int], wide: bool) -> list[int]:
    if wide:
        return [unsigned(value) for value in values]
    padded = [*values, 0]
    return [padded[i] | padded[i + 1] << 32 for i in range(0, len(values), 2)]


def tensor(
    dtype: int, sizes: Sequence[int], strides: Sequence[int] | None = None, wide: bool = False
) -> list[int]:
    bits = (InputBit.WIDE if wide else 0) | (0 if strides is None else InputBit.STRIDES)
    first = head(InputKind.TENSOR, bits | len(sizes) << 8 | dtype << 16)
    return [first, *numbers(sizes, wide), *numbers(strides or [], wide)]


def integer(value: int) -> list[int]:
    return [head(InputKind.INTEGER), unsigned(value)]


def real(value: float) -> list[int]:
    return [head(InputKind.REAL), bits_of(value)]


def boolean(value: bool) -> list[int]:
    return [head(InputKind.BOOLEAN), int(value)]


def complex_(value: complex) -> list[int]:
    return [head(InputKind.COMPLEX), bits_of(value.real), bits_of(value.imag)]


def packed(values: Sequence[int]) -> list[int]:
    return [head(InputKind.LIST, InputBit.PACKED, len(values)), *map(unsigned, values)]


def items(values: Sequence[list[int]]) -> list[int]:
    return [head(InputKind.LIST, 0, len(values)), *(word for value in values for word in value)]


def tensors(values: Sequence[list[int]], given: int | None = None) -> list[int]:
    words = [word for value in values for word in value]
    if given is None:
        return [head(InputKind.TENSOR_LIST, 0, len(values)), *words]
    return [head(InputKind.TENSOR_LIST, InputBit.CUT, given), len(values), *words]


def text(value: str, cut: bool = False) -> list[int]:
    data = value.encode()
    padded = data + bytes(-len(data) % 8)
    words = [int(word) for word in np.frombuffer(padded, "<u8")]
    return [head(InputKind.TEXT, InputBit.CUT if cut else 0, len(data)), *words]


def block(
    inputs: Sequence[list[int]], keywords: dict[str, list[int]] | None = None, left_out: int = 0
) -> list[int]:
    """Return the words of a block."""
    named = keywords or {}
    words = [len(inputs) | len(named) << 16 | (len(inputs) + left_out) << 32]
    for one in inputs:
        words += one
    for name, value in named.items():
        words += [*text(name), *value]
    return words


OTHER, UNDEFINED = [head(InputKind.OTHER)], [head(InputKind.UNDEFINED)]
MATRIX, VECTOR = tensor(6, [2, 3], [3, 1]), tensor(11, [5], [1])
SCALARS = [integer(7), integer(-(2**63)), integer(2**63 - 1), real(0.0), real(-0.0), real(0.1), real(-3.0),
           real(1e10), real(2.0**40), real(5e-324), real(math.inf), real(math.nan), boolean(True), boolean(False),
           complex_(1 - 2j), complex_(complex(-0.0, -0.0)), complex_(0.5 + 1e300j)]  # fmt: skip
LISTS = [packed([]), packed([1, -2, 3]), items([]), items(SCALARS), items([text("a"), text('"b"\n')]),
         items([OTHER, MATRIX, packed([4, 5])])]  # fmt: skip
TENSORS = [tensor(6, []), tensor(6, [], []), MATRIX, VECTOR, tensor(0, [2**32 - 1, 0, 7], None),
           tensor(7, [2**40, 3], [3, -1], wide=True), tensor(4, [-1], wide=True), tensor(5, range(9), range(9)),
           tensor(15, [1] * 64, [1] * 64), tensor(0xFFFF, [2]), tensor(200, [2])]  # fmt: skip
TENSOR_LISTS = [tensors([]), tensors([MATRIX, VECTOR]), tensors([MATRIX], given=3), tensors([], given=2),
                tensors([tensor(6, [n]) for n in range(31)]), tensors([tensor(6, [n]) for n in range(32)]),
                tensors([tensor(6, [n], [1]) for n in range(40)], given=50),
                tensors([UNDEFINED, OTHER, MATRIX])]  # fmt: skip
TEXTS = [
    text(""),
    text("abcdefg"),
    text("abcdefgh"),
    text("äöü \U0001f600 \\ \"'\x01"),
    text("cu", cut=True),
]
KINDS = [OTHER, UNDEFINED, *SCALARS, *LISTS, *TENSORS, *TENSOR_LISTS, *TEXTS]
NESTED = [items([items([integer(1)])]), items([items([])]), items([tensors([MATRIX])]),
          tensors([tensors([MATRIX])]), tensors([items([])])]  # fmt: skip


# ---- what a trace shows of what Python decodes ----------------------------------------------------


def shown_real(value: float) -> str:
    whole = math.isfinite(value) and abs(value) < 1e10 and value == math.trunc(value)
    return f"{int(value)}." if whole else f"{value:.17g}"


def shown(value: Any) -> str:
    """Return a value as traces contain it: as PyTorch's text."""
    if value is None or isinstance(value, str):
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, complex):
        sign = "-" if math.copysign(1, value.imag) < 0 else "+"
        return f"{shown_real(value.real)}{sign}{shown_real(abs(value.imag))}j"
    if isinstance(value, float):
        return shown_real(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    return str(value)


def shown_sizes(sizes: list[Any], is_list: bool, cut: bool) -> list[Any]:
    if is_list and len(sizes) > SHOWN_TENSORS + 1:
        sizes = [*sizes[:SHOWN_TENSORS], "...", sizes[-1]]
    return [*sizes, "..."] if cut else sizes


def keyword(value: Any) -> Any:
    """Return a keyword's value as JSON contains it; None for values that traces leave out."""
    if isinstance(value, list):
        return [keyword(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), "NaN")
    return None if isinstance(value, complex) else value


def members(decoded: OpInputs, stored: int, cut: Sequence[bool]) -> dict[str, Any]:
    """Return the args of a trace. stored: inputs that fitted; cut: for each, whether its list was truncated."""
    types = decoded.input_dtypes[:stored]
    lists = [(one == "TensorList", one_cut) for one, one_cut in zip(types, cut, strict=True)]
    columns = (
        [
            shown_sizes(s, *how)
            for s, how in zip(decoded.structured_input_shapes, lists, strict=False)
        ],
        [
            shown_sizes(s, *how)
            for s, how in zip(decoded.structured_input_strides, lists, strict=False)
        ],
        [
            "" if name.startswith("dtype ") else name for name in types
        ],  # of a dtype number without a name
        [shown(value) for value in decoded.concrete_inputs[:stored]],
    )
    more = [] if stored == len(decoded.input_dtypes) else ["..."]
    found: dict[str, Any] = {}
    if decoded.input_dtypes:
        found = {name: [*column, *more] for name, column in zip(INPUTS, columns, strict=True)}
    values = {name: keyword(value) for name, value in decoded.kwinputs.items()}
    return {**found, **{name: value for name, value in values.items() if value is not None}}


def traced(blocks: Sequence[list[int]], folder: Path) -> list[dict[str, Any]]:
    """Return the args that the C++ writer writes for ops with these inputs."""
    words: list[int] = []
    payload = []
    for contents in blocks:
        payload.append(len(words))
        words += [1 + len(contents), DetailType.OP_INPUTS | len(contents) << 16, *contents]
    flags = np.full(len(blocks), int(EventFlag.DETAIL | EventFlag.FINISHED))
    site = Site("aten::op", category="cpu_op")
    capture = capture_of([site], payload, words, flags=flags)
    path = folder / "trace.json"
    write_chrome_capture(capture, path, {})
    events = json.loads(path.read_text())["traceEvents"]
    rows = [event["args"] for event in events if event.get("name") == "aten::op"]
    assert len(rows) == len(blocks)
    own = {"External id", "Ev Idx", "Record function id"}
    return [{key: value for key, value in args.items() if key not in own} for args in rows]


def is_cut(words: list[int]) -> bool:
    return words[0] & 15 == InputKind.TENSOR_LIST and words[0] & InputBit.CUT != 0


# ---- the comparison --------------------------------------------------------------------------------


def test_the_kinds_are_all_there() -> None:
    assert {words[0] & 15 for words in KINDS} == set(InputKind)


def compare(
    cases: Sequence[tuple[Sequence[list[int]], dict[str, list[int]], int]], folder: Path
) -> None:
    blocks = [block(*case) for case in cases]
    for (inputs, keywords, left_out), words, args in zip(
        cases, blocks, traced(blocks, folder), strict=True
    ):
        decoded = decode_op_inputs(words)
        assert len(decoded.input_dtypes) == len(inputs) + left_out
        assert list(decoded.kwinputs) == list(keywords)
        assert args == members(decoded, len(inputs), [is_cut(one) for one in inputs])


def test_every_kind_alone_and_as_a_keyword(tmp_path: Path) -> None:
    compare([([one], {}, 0) for one in KINDS], tmp_path)
    compare([([one], {}, 3) for one in KINDS], tmp_path)
    compare([([], {"k": one}, 0) for one in KINDS], tmp_path)
    compare([([], {}, 0), ([], {}, 2)], tmp_path)


def test_many_together(tmp_path: Path) -> None:
    drawn = random.Random(3)
    cases = []
    for _ in range(400):
        inputs = drawn.choices(KINDS, k=drawn.randrange(9))
        keywords = {f"k{i}": drawn.choice(KINDS) for i in range(drawn.randrange(4))}
        cases.append((inputs, keywords, drawn.choice([0, 0, 0, 1, 5])))
    compare(cases, tmp_path)


def test_every_dtype(tmp_path: Path) -> None:
    numbers_of_types = [*range(len(DTYPE_NAMES) + 3), 0xFFFE, 0xFFFF]
    args = traced([block([tensor(number, [1])]) for number in numbers_of_types], tmp_path)
    for number, shown_args in zip(numbers_of_types, args, strict=True):
        (name,) = decode_op_inputs(block([tensor(number, [1])])).input_dtypes
        assert shown_args["Input type"] == ["" if name.startswith("dtype ") else name]
        assert (name == f"dtype {number}") == (len(DTYPE_NAMES) <= number != 0xFFFF)


@pytest.mark.parametrize("bad", [*NESTED, *([kind] for kind in range(10, 16))], ids=str)
def test_what_no_writer_writes_is_refused(bad: list[int], tmp_path: Path) -> None:
    """Python's decoder raises; the trace contains the inputs before the invalid one."""
    words = block([MATRIX, bad, VECTOR], {"k": integer(1)})
    with pytest.raises(IndexError):
        decode_op_inputs(words)
    (args,) = traced([words], tmp_path)
    assert args["Input Dims"] == [[2, 3], "..."]
    assert set(args) == set(INPUTS)


def test_a_keyword_without_a_name_is_refused(tmp_path: Path) -> None:
    words = [1 << 16, *integer(1), *integer(2)]
    with pytest.raises(IndexError):
        decode_op_inputs(words)
    assert traced([words], tmp_path) == [{}]


def test_blocks_that_end_too_early(tmp_path: Path) -> None:
    """Both decoders refuse the same blocks, and the trace contains complete inputs only."""
    whole = block([*KINDS[-8:], MATRIX], {"k": text("abcdefghi")})
    cut = [whole[:count] for count in range(1, len(whole))]
    ends = np.cumsum([1, *(len(one) for one in [*KINDS[-8:], MATRIX])]).tolist()
    for words, args in zip(cut, traced(cut, tmp_path), strict=True):
        with pytest.raises(IndexError):
            decode_op_inputs(words)
        stored = sum(end <= len(words) for end in ends[1:])
        assert len(args["Input type"]) == stored + (stored < len(ends) - 1)
        assert "k" not in args


# ---- storages, and blocks by their words ---------------------------------------------------------


def stored(words: list[int], address: int) -> list[int]:
    return [words[0] | InputBit.STORAGE, *words[1:], address]
