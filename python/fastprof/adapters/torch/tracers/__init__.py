# SPDX-License-Identifier: Apache-2.0
"""Ranges and profiles inside code that PyTorch compiles, traces or exports.

PyTorch's tracers recognise torch.profiler.record_function by its class or by the operators that it calls. This
package makes them treat fastprof.record_function and fastprof.profile the same way:

| tracer                            | what it does with a range                                       | module    |
|-----------------------------------|-----------------------------------------------------------------|-----------|
| torch.compile, torch.export       | ignores it, or keeps it (capture_profiler_record_function)      | dynamo    |
| torch.jit.script                  | compiles it; the scripted function calls the operators          | script    |
| torch.jit.trace, make_fx          | puts the two operators of the range into the graph              | mirror    |
| torch.profiler.ExecutionTraceObserver | writes the range into its file                              | mirror    |

torch is never imported for this. `install()` runs when record_function or profile is imported: it registers with
a torch that is loaded, else it watches for the import (`fastprof.adapters.import_watch`). If a torch release
lacks what a registration needs, that registration is skipped, and PyTorch treats ranges as ordinary Python objects.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fastprof.adapters.import_watch import after_import

__all__ = ["in_dynamo", "install", "observer_hidden", "register_profile"]

_installed: list[type] = []


def install(range_type: type) -> None:
    """Make PyTorch's tracers treat `range_type` as torch.profiler.record_function. Any thread.

    A second call does nothing.
    """
    if range_type in _installed:
        return
    _installed.append(range_type)
    from fastprof.adapters.torch.tracers import script

    script.name_for_torchscript(range_type)
    after_import("torch", _unless_it_fails(lambda: _mirror(range_type)))
    _register_class(range_type, "record_function")


def register_profile(profile_type: type) -> None:
    """Make Dynamo ignore `profile_type` inside a compiled function, as torch.profiler.profile."""
    _register_class(profile_type, "profile")


def in_dynamo() -> bool:
    """Return False. In code that Dynamo compiles, the call is replaced by True (see `dynamo`)."""
    return False


def observer_hidden() -> AbstractContextManager[None]:
    """Stop a running ExecutionTraceObserver for a with block; no effect if none runs. Any thread."""
    mirror: Any = sys.modules.get("fastprof.adapters.torch.tracers.mirror")
    return nullcontext() if mirror is None else mirror.observer_stopped()


def _register_class(ours: type, theirs: str) -> None:
    def register() -> None:
        from fastprof.adapters.torch.tracers import dynamo

        dynamo.register(ours, theirs)

    after_import("torch._dynamo", _unless_it_fails(register))


def _mirror(range_type: type) -> None:
    from fastprof.adapters.torch.tracers import mirror

    mirror.install(range_type, sys.modules["torch"])


def _unless_it_fails(register: Callable[[], Any]) -> Callable[[], None]:
    """Wrap `register` to suppress exceptions: a failed registration must not fail the program's import."""

    def attempt() -> None:
        try:
            register()
        except Exception:  # an unsupported torch release: ranges work without the registration
            return

    return attempt
