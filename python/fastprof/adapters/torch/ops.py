# SPDX-License-Identifier: Apache-2.0
"""Record PyTorch's ops in a profile once the process has imported torch; never imports it itself."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Protocol

from fastprof import _core
from fastprof.adapters.torch import flags as torch_flags
from fastprof.adapters.torch import proof as torch_proof
from fastprof.adapters.torch.import_end import TorchImport
from fastprof.adapters.torch.proof import Trial, begin_proof, is_being_imported, reason_against
from fastprof.adapters.torch.unlisted import proven_layout
from fastprof.adapters.torch.versions import cxx11_abi, version_of
from fastprof.base.observer import Observer
from fastprof.base.record_scope import RecordScope

__all__ = ["Observation", "Part", "after_fork_in_child", "await_torch", "forget_torch", "op_trials"]

_LATE = (
    "torch ops are recorded only from the end of fastprof's self-test of torch: the profile could not"
    " wait for it, because {} was being imported. Import torch before the profile starts."
)

# Guards the following. Never held while waiting for a proof.
_lock = threading.RLock()
_live: list[Observation] = []
_waiters: list[Waiter] = []
_watch: TorchImport | None = None


class Waiter(Protocol):
    """Receives the end of `import torch`. All share one TorchImport: a thread has only one profile function."""

    def torch_imported(self, torch: ModuleType, last: bool) -> bool:
        """Handle the end of `import torch`: the function that TorchImport calls."""
        ...


def await_torch(waiter: Waiter) -> None:
    """Call the waiter once torch is imported, until forget_torch(). Any thread."""
    with _lock:
        _waiters.append(waiter)
        _watch_import()


def forget_torch(waiter: Waiter) -> None:
    """Cancel await_torch(). No effect if it was not called, or if called again."""
    with _lock:
        if waiter in _waiters:
            _waiters.remove(waiter)
        if not _live and not _waiters:
            _stop_watching()


def _watch_import() -> None:
    """Watch for the import, unless torch is loaded. Requires _lock."""
    global _watch
    if "torch" not in sys.modules:
        if _watch is None:
            _watch = TorchImport(_torch_imported)
        _watch.watch()


def op_trials(inputs: bool) -> list[Trial]:
    """Return the trials that must succeed before ops are observed. inputs: also those for the ops' inputs."""
    trials: list[Trial] = [("ops", _wrong_about_ops)]
    if inputs:
        trials.append(("inputs", _wrong_about_inputs))
    return trials


class Part(Protocol):
    """A feature that is observed together with torch's ops, such as allocations or modules."""

    @property
    def trials(self) -> Sequence[Trial]:
        """The trials that must succeed before begin(); run on a thread of their own."""
        ...

    def begin(self, torch: ModuleType) -> None:
        """Begin, or report a failed trial. Runs no torch code. No effect if called again."""

    def refused(self) -> None:
        """Handle that the ops of this torch cannot be observed."""

    def stop(self) -> None:
        """End. No effect if called again or without begin()."""


class Observation(Observer):
    """Records PyTorch's ops from prepare() to stop(), for all sessions that are running.

    report_missing: called with a key ("torch_ops", "torch_fast_ranges", "record_shapes") and the
    reason if the loaded torch cannot be observed. parts: begin and stop together with the ops.
    inputs: record shapes and values of the ops' inputs. Any thread.
    """

    def __init__(
        self,
        report_missing: Callable[[str, str], None],
        parts: Sequence[Part] = (),
        inputs: bool = False,
    ) -> None:
        self._report_missing = report_missing
        self._parts = parts
        self._inputs = inputs
        self._ops = _core.TorchOpsHold()
        self._fast_ranges = _core.TorchFastRangesHold()

    def prepare(self) -> None:
        """Observe from now on: immediately if torch is loaded, else once it is imported."""
        with _lock:
            _live.append(self)
            _watch_import()
        # Checked after the watch is installed, because another thread may have begun the import before.
        torch = sys.modules.get("torch")
        if torch is not None:
            self._begin_when_proven(torch)

    @property
    def active(self) -> bool:
        """Whether ops are being recorded for this observation."""
        return self._ops.active

    def stop(self) -> None:
        """Stop recording for this observation. Ops in progress still record their ends."""
        with _lock:
            if self in _live:
                _live.remove(self)
            if not _live and not _waiters:
                _stop_watching()
            for part in self._parts:
                part.stop()
            self._ops.end()
            self._fast_ranges.end()
            torch_flags.show_profiler(any(other.active for other in _live))

    def _begin_when_proven(self, torch: ModuleType, last: bool = True) -> bool:
        """Begin after the proof; wait for it unless that could deadlock. Return False if it was not awaited.

        If last is True and it was not awaited, observation begins when the proof finishes, and the ops
        missing until then are reported.
        """
        trials = op_trials(self._inputs)
        for part in self._parts:
            trials.extend(part.trials)
        proof = begin_proof(torch, trials)
        if proof is None or proof.wait():
            with _lock:
                self._begin(torch)
            return True
        if last:
            during = "torch" if is_being_imported(torch) else "another module"
            self._report_missing("torch_ops", _LATE.format(during))
            proof.call_afterwards(lambda: self._begin_late(torch))
        return False

    def _begin_late(self, torch: ModuleType) -> None:
        with _lock:
            if self in _live:
                self._begin(torch)

    def _begin(self, torch: ModuleType) -> None:
        """Begin, after the trials have run. Requires _lock. No effect if called again."""
        reason = reason_against(torch, "ops")
        if reason:
            self._report_missing("torch_ops", reason)
            for part in self._parts:
                part.refused()
        if reason is None or reason or self._ops.active:
            return
        why_no_inputs = reason_against(torch, "inputs") if self._inputs else None
        if why_no_inputs:
            self._report_missing("record_shapes", why_no_inputs)
        self._ops.begin(self._inputs and not why_no_inputs)
        self._begin_fast_ranges(torch)
        for part in self._parts:
            part.begin(torch)
        torch_flags.show_profiler(True)

    def _begin_fast_ranges(self, torch: Any) -> None:
        """Record _RecordFunctionFast ranges (torch.compile, Triton), which check torch's own profiler only."""
        fast_range = getattr(getattr(torch._C, "_profiler", None), "_RecordFunctionFast", None)
        if fast_range is None:
            return
        reason = self._fast_ranges.begin(fast_range)
        if reason:
            self._report_missing(
                "torch_fast_ranges", f"ranges of _RecordFunctionFast are not recorded: {reason}"
            )


def after_fork_in_child() -> None:
    """Reset in a forked child: nothing is observed until a profile starts there."""
    global _lock
    _lock = threading.RLock()
    _live.clear()
    _stop_watching()
    if _waiters:  # emission continues in the child
        _watch_import()
    torch_proof.after_fork_in_child()
    if "fastprof.adapters.torch.headers" in sys.modules:
        from fastprof.adapters.torch import headers as torch_headers

        torch_headers.after_fork_in_child()
    if "fastprof.adapters.torch.memory" in sys.modules:
        from fastprof.adapters.torch import memory as torch_memory

        torch_memory.after_fork_in_child()
    elif "fastprof.adapters.torch.threads" in sys.modules:
        _core.torch_memory_after_fork_in_child()
    _core.torch_after_fork_in_child()
    torch_flags.show_profiler(False)


def _wrong_about_ops(torch: ModuleType) -> str:
    """Return "" if ops of this torch can be observed, else the reason."""
    version = version_of(torch)
    abi = cxx11_abi(torch)
    reason = proven_layout(
        torch,
        version,
        "ops",
        known=lambda release: _core.torch_known_layout(release, abi),
        proof=lambda numbers: _core.torch_prepare(version, abi, list(numbers)),
    )
    if reason:
        return f"torch ops are not recorded: {reason}"
    try:
        wrong = _wrong_about_known_op(torch)
    except Exception as failure:
        wrong = f"torch.add raised {failure!r}"
    if wrong:
        return f"torch ops are not recorded: the self-test of torch {version} failed ({wrong})"
    return ""


def _wrong_about_inputs(torch: ModuleType) -> str:
    from fastprof.adapters.torch.inputs import prepare_inputs

    return prepare_inputs(torch, version_of(torch))


def _wrong_about_known_op(torch: Any) -> str:
    tensor = torch.ones(4, device="cpu", requires_grad=True)
    thread, ops = _core.torch_observe(lambda: torch.add(tensor, tensor))
    for name, scope, sequence_nr, op_thread, forward_thread in ops:
        if (name, scope, op_thread, forward_thread) == (
            "aten::add",
            RecordScope.FUNCTION,
            thread,
            0,
        ) and sequence_nr >= 0:
            return ""
    return f"torch.add was recorded as {ops}"


def _stop_watching() -> None:
    global _watch
    if _watch is not None:
        _watch.stop()
        _watch = None


def _torch_imported(torch: ModuleType, last: bool) -> bool:
    """Handle the end of `import torch` (see TorchImport); return whether every observation has begun."""
    with _lock:
        waiting = list(_live)
        others = list(_waiters)
    done = [observation._begin_when_proven(torch, last) for observation in waiting]
    done += [waiter.torch_imported(torch, last) for waiter in others]
    if all(done) or last:
        with _lock:
            _stop_watching()
    return all(done)
