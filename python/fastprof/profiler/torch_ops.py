# SPDX-License-Identifier: Apache-2.0
"""PyTorch's ops in a profile: observed when the process has torch, which is never imported from here."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

from fastprof import _core
from fastprof.profiler.torch_versions import cxx11_abi, version_of
from fastprof.profiler.unlisted_torch import numbers_of_headers

if TYPE_CHECKING:  # importlib.abc costs more to load than the rest of this package
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec

__all__ = ["after_fork_in_child", "loaded_torch", "observe_torch_ops"]

# RecordScope::FUNCTION in csrc/include/fastprof/base/scope.hpp.
_FUNCTION_SCOPE = 0

# One lock for what follows. Held while libtorch is tried: reentrant, for that may run code.
_lock = threading.RLock()
_live: list[_Observation] = []
_watch: _ImportWatch | None = None
_unusable: dict[str, str] = {}  # torch's version -> why its ops cannot be observed
_unusable_inputs: dict[str, str] = {}  # torch's version -> why inputs of its ops cannot be read


def loaded_torch() -> ModuleType | None:
    """The module torch when the process has imported it, to its end."""
    module = sys.modules.get("torch")
    spec = getattr(module, "__spec__", None)
    if module is None or getattr(spec, "_initializing", False):
        return None
    return module


class Part(Protocol):
    """What is observed of torch beside its ops."""

    def begin(self, torch: ModuleType) -> None: ...
    def refused(self) -> None: ...
    def stop(self) -> None: ...


class _Observation:
    """Ops are recorded from its making until stop(); the sessions that run then have them."""

    def __init__(
        self, tell: Callable[[str, str], None], parts: Sequence[Part], inputs: bool
    ) -> None:
        self._tell = tell
        self._parts = parts
        self._inputs = inputs
        self._observing = False
        self._fast_ranges = False

    def begin(self, torch: ModuleType) -> None:
        """Observe the loaded torch, or tell why not. _lock held."""
        reason = _unusable_reason(torch)
        if reason:
            self._tell("torch_ops", reason)
            for part in self._parts:
                part.refused()
        elif not self._observing:
            if self._inputs:
                self._try_inputs(torch)
            _core.torch_start_observing(self._inputs)
            self._observing = True
            self._begin_fast_ranges(torch)
            for part in self._parts:
                part.begin(torch)

    def _try_inputs(self, torch: ModuleType) -> None:
        reason = _unusable_inputs_reason(torch)
        if reason:
            self._inputs = False
            self._tell("record_shapes", reason)

    def _begin_fast_ranges(self, torch: Any) -> None:
        """torch.compile and Triton annotate with a type that asks torch's own profiler only."""
        fast_range = getattr(getattr(torch._C, "_profiler", None), "_RecordFunctionFast", None)
        if fast_range is None:
            return
        _show_profiler(torch, True)
        reason = _core.torch_observe_fast_ranges(fast_range)
        self._fast_ranges = not reason
        if reason:
            self._tell(
                "torch_fast_ranges", f"ranges of _RecordFunctionFast are not recorded: {reason}"
            )

    def stop(self) -> None:
        """No more ops are recorded on its behalf. Ops in progress end when they end."""
        with _lock:
            if self in _live:
                _live.remove(self)
                if not _live:
                    _stop_watching()
            if self._observing:
                self._observing = False
                for part in self._parts:
                    part.stop()
                _core.torch_stop_observing(self._inputs)
            if self._fast_ranges:
                self._fast_ranges = False
                _core.torch_release_fast_ranges()
                if not any(other._fast_ranges for other in _live):
                    _show_profiler(sys.modules.get("torch"), False)


def observe_torch_ops(
    tell: Callable[[str, str], None], parts: Sequence[Part] = (), inputs: bool = False
) -> _Observation:
    """Observe from now on: at once when torch is there, else as soon as it is imported.

    `tell` is called with what is missing ("torch_ops", "torch_fast_ranges", "record_shapes") and the
    reason when the torch that is there cannot be observed. `parts` begin when its ops are observed,
    and stop with them. inputs: ops are recorded with shapes and values of their inputs. Any thread.
    """
    global _watch
    observation = _Observation(tell, parts, inputs)
    with _lock:
        _live.append(observation)
        torch = loaded_torch()
        if torch is not None:
            observation.begin(torch)
        elif "torch" in sys.modules:
            tell(
                "torch_ops",
                "torch was being imported when the profile started: start it afterwards",
            )
        elif _watch is None:
            _watch = _ImportWatch()
            sys.meta_path.insert(0, _watch)
    return observation


def _show_profiler(torch: Any, on: bool) -> None:
    """The flag by which torch.compile and Triton decide whether to make their ranges at all.

    torch's own profiler sets it too and clears it when it ends, on whatever thread.
    """
    autograd: Any = getattr(torch, "autograd", None)
    profiler: Any = getattr(autograd, "profiler", None)
    if isinstance(getattr(profiler, "_is_profiler_enabled", None), bool):
        profiler._is_profiler_enabled = on or bool(autograd._profiler_enabled())


def after_fork_in_child() -> None:
    """Nothing is observed in a forked child until a profile starts there."""
    global _lock
    _lock = threading.RLock()
    shown = any(observation._fast_ranges for observation in _live)
    for observation in _live:
        observation._observing = observation._fast_ranges = False
    _live.clear()
    _stop_watching()
    if "fastprof.profiler.torch_headers" in sys.modules:
        from fastprof.profiler import torch_headers

        torch_headers.after_fork_in_child()
    if "fastprof.profiler.torch_memory" in sys.modules:
        from fastprof.profiler import torch_memory

        torch_memory.after_fork_in_child()
    elif "fastprof.profiler.torch_threads" in sys.modules:
        _core.torch_memory_after_fork_in_child()
    _core.torch_after_fork_in_child()
    if shown:
        _show_profiler(sys.modules.get("torch"), False)


def _unusable_reason(torch: ModuleType) -> str:
    version = version_of(torch)
    reason = _unusable.get(version)
    if reason is None:
        reason = _unusable[version] = _try(torch, version)
    return reason


def _try(torch: ModuleType, version: str) -> str:
    """Empty when ops of this torch can be observed, else the reason."""
    layout: list[int] | None = None
    if _core.torch_known_layout(version, cxx11_abi(torch)) is None:
        numbers = numbers_of_headers(torch, version, "ops")
        if isinstance(numbers, str):
            return f"torch ops are not recorded: {numbers}"
        layout = numbers
    reason = _core.torch_prepare(version, cxx11_abi(torch), layout)
    if reason:
        return f"torch ops are not recorded: {reason}"
    wrong = _on_own_thread(
        lambda: _wrong_about_known_op(torch), "a known op could not be run: {!r}".format
    )
    if wrong:
        return f"torch ops are not recorded: torch {version} does not behave as known ({wrong})"
    return ""


def _unusable_inputs_reason(torch: ModuleType) -> str:
    version = version_of(torch)
    reason = _unusable_inputs.get(version)
    if reason is None:
        from fastprof.profiler.torch_inputs import prepare_inputs

        reason = _unusable_inputs[version] = _on_own_thread(
            lambda: prepare_inputs(torch, version), repr
        )
    return reason


def _on_own_thread(work: Callable[[], str], of_failure: Callable[[Exception], str]) -> str:
    """What `work` returns: modes of this thread (inference, default device, ...) are not met there."""
    found: list[str] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as failure:
            found.append(of_failure(failure))

    thread = threading.Thread(target=run, name="fastprof torch self-test", daemon=True)
    thread.start()
    thread.join()
    return found[0]


def _wrong_about_known_op(torch: Any) -> str:
    tensor = torch.ones(4, device="cpu", requires_grad=True)
    thread, ops = _core.torch_observe(lambda: torch.add(tensor, tensor))
    for name, scope, sequence_nr, op_thread, forward_thread in ops:
        if (name, scope, op_thread, forward_thread) == (
            "aten::add",
            _FUNCTION_SCOPE,
            thread,
            0,
        ) and sequence_nr >= 0:
            return ""
    return f"torch.add was seen as {ops}"


def _stop_watching() -> None:
    global _watch
    if _watch is not None:
        _watch.remove()
        _watch = None


def _torch_imported() -> None:
    torch = sys.modules.get("torch")
    if torch is None:
        return
    with _lock:
        for observation in list(_live):
            observation.begin(torch)
        _stop_watching()


class _ImportWatch:
    """Finds nothing itself: tells when `import torch` has come to its end."""

    def remove(self) -> None:
        """Take it out of sys.meta_path."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give for torch, with a loader that tells."""
        if fullname != "torch":
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find and find(fullname, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = cast("Loader", _TellingLoader(spec.loader))
                return spec
        return None


class _TellingLoader:
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module is to look as if it had been loaded without us.
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            _torch_imported()
        except Exception as failure:  # the program's import must not fail for a profile
            warnings.warn(f"profile: torch ops are not recorded: {failure!r}", stacklevel=2)
