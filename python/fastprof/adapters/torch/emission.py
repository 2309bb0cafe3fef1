# SPDX-License-Identifier: Apache-2.0
"""Emit PyTorch's ops to a tool once the process has imported torch; never imports it itself."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from fastprof import _core
from fastprof.adapters.torch.ops import await_torch, forget_torch, op_trials
from fastprof.adapters.torch.proof import Trial, begin_proof, is_being_imported, reason_against

__all__ = ["OpEmission"]


class OpEmission:
    """Emits ops from start() to stop().

    emission: the emission of ranges to the tool, begun. shapes: also emit the sizes of inputs and the ops that made
    them. report: called with the reason if something cannot be emitted. Any thread.
    """

    def __init__(
        self,
        emission: _core.RangeEmission | _core.SignpostEmission,
        shapes: bool,
        report: Callable[[str], None],
    ) -> None:
        self._emission = emission
        self._shapes = shapes
        self._report = report
        self._lock = threading.RLock()
        self._live = False
        self._begun = False

    def start(self) -> None:
        """Emit from now on: immediately if torch is loaded, else once it is imported."""
        self._live = True
        await_torch(self)
        # Checked after the watch is installed, because another thread may have begun the import before.
        torch = sys.modules.get("torch")
        if torch is not None:
            self._begin_when_proven(torch, True)

    def stop(self) -> None:
        """Begin nothing from now on. The emission itself is ended by its owner."""
        forget_torch(self)
        with self._lock:
            self._live = False

    def torch_imported(self, torch: ModuleType, last: bool) -> bool:
        """Begin when torch has been proven; return whether that was possible."""
        return self._begin_when_proven(torch, last)

    def _begin_when_proven(self, torch: ModuleType, last: bool) -> bool:
        """Begin after the proof; wait for it unless that could deadlock. Return False if it was not awaited."""
        trials = [*op_trials(self._shapes), *((_OUTPUTS_TRIAL,) if self._shapes else ())]
        proof = begin_proof(torch, trials)
        if proof is None or proof.wait():
            self._begin(torch)
            return True
        if last:
            during = "torch" if is_being_imported(torch) else "another module"
            self._report(
                "torch ops are emitted only from the end of fastprof's self-test of torch, because"
                f" {during} was being imported. Import torch before."
            )
            proof.call_afterwards(lambda: self._begin(torch))
        return False

    def _begin(self, torch: ModuleType) -> None:
        """Begin, after the trials have run. No effect after stop() or if called again."""
        with self._lock:
            if not self._live or self._begun:
                return
            self._begun = True
            reason = reason_against(torch, "ops")
            if reason:
                self._report(reason.replace("recorded", "emitted"))
                return
            no_inputs = reason_against(torch, "inputs") if self._shapes else ""
            no_outputs = reason_against(torch, "outputs") if self._shapes else ""
            if no_inputs or no_outputs:
                self._report((no_inputs or no_outputs or "").replace("recorded", "emitted"))
            shapes = self._shapes and not no_inputs
            self._emission.begin_ops(shapes, shapes and not no_outputs)


def _wrong_about_outputs(torch: Any) -> str:
    """Return "" if the outputs read from known ops are the tensors that those returned, else the reason."""
    why_no_inputs = reason_against(torch, "inputs")
    if why_no_inputs:
        return why_no_inputs
    tensor = torch.ones((2, 3), device="cpu")
    kept: list[Any] = []

    def work() -> None:
        kept.append(torch.add(tensor, tensor))
        kept.extend(torch.max(tensor, 1))

    tried = _core.torch_try_outputs(work)
    for op, made in (("aten::add", kept[:1]), ("aten::max", kept[1:])):
        read = [tensors for name, tensors in tried if name == op]
        if read != [[one._cdata for one in made]]:
            return (
                f"torch ops are emitted without input_op_ids: outputs of {op} were read as {read}"
            )
    return ""


_OUTPUTS_TRIAL: Trial = ("outputs", _wrong_about_outputs)
