# SPDX-License-Identifier: Apache-2.0
"""Find the offset of a tensor's storage pointer: try candidates on known tensors, with every access checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastprof import _core
from fastprof.decode.op_inputs import decode_op_inputs

__all__ = ["OFFSETS", "storage_offset"]

# Size of the base class of TensorImpl and StorageImpl (c10::intrusive_ptr_target with its virtual table
# pointer): the first member of each is the pointer in question. Newer releases pack the two counts into one.
OFFSETS = (16, 24)


def storage_offset(torch: Any, layout: Sequence[int]) -> int:
    """Return the offset of a tensor's storage pointer, which is also that of a storage's data pointer; 0: unknown.

    layout: numbers in the order of layout.INPUTS, proven. Wrong offsets are safe to try. Requires a
    thread without modes (inference, default device), like wrong_about_known_inputs.
    """
    whole = torch.empty((6, 5), dtype=torch.float64)
    part = whole[2:, 1:].t()  # begins inside the memory of `whole`
    corner = part[:1, :1]
    deep = torch.empty((1, 2, 1, 3, 1, 2), dtype=torch.int16)
    bare = torch.empty((3,), device="meta")
    cases = [
        (lambda: torch.add(whole, corner), "aten::add", [whole, corner, None]),
        (lambda: torch.sum(deep, (0,)), "aten::sum", [deep, None, None, None]),
        (lambda: torch.stack([part, part]), "aten::stack", [[part, part], None]),
        # Arithmetic on this device is written in Python, and imports torch's compiler: 3 s.
        (lambda: bare.view(3), "aten::view", [None, None]),
    ]

    def address(tensor: Any) -> Any:
        if isinstance(tensor, list):
            return [address(one) for one in tensor]
        if tensor is None:
            return []
        last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
        return [tensor.untyped_storage().data_ptr(), (last + 1) * tensor.element_size()]

    for offset in OFFSETS:
        for work, op, tensors in cases:
            tried = _core.torch_try_inputs(layout, work, offset)
            words = next((words for name, _, words, _ in tried if name == op), [])
            if not words or decode_op_inputs(words).input_storages != address(tensors):
                break
        else:
            return offset
    return 0
