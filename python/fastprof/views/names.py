# SPDX-License-Identifier: Apache-2.0
"""Names as the views display them: wildcards, demangling, and filtered names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from fastprof.model.sites import MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME

__all__ = [
    "MACHINERY_NAMES",
    "MEMORY_EVENT_NAME",
    "OUT_OF_MEMORY_EVENT_NAME",
    "StringTable",
    "demangle",
    "is_filtered_name",
    "keeps_stack_entry",
    "wildcard_name",
]


# Ranges that the profiler itself causes; they are never listed. The names are PyTorch's.
MACHINERY_NAMES = frozenset(
    {
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "aten::is_leaf",
        "aten::output_nr",
        "aten::_version",
    }
)
# Also the names of memory records, which are not ranges.
FILTERED_NAMES = MACHINERY_NAMES | {MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME}

# A stack entry that contains both parts of a pair belongs to the machinery, not to user code.
FILTERED_STACK_PAIRS = (
    ("autograd/__init__", "_make_grads"),
    ("autograd/__init__", "backward"),
    ("torch/tensor", "backward"),
    ("_internal/common_utils", "prof_callable"),
    ("_internal/common_utils", "prof_func_call"),
    ("_internal/common_utils", "prof_meth_call"),
)


def is_filtered_name(name: str) -> bool:
    """Return whether PyTorch's lists leave out events of this name."""
    return name in FILTERED_NAMES


def keeps_stack_entry(entry: str) -> bool:
    """Return whether to keep a stack entry; frames of autograd and of torch's test suite are left out."""
    return not any(a in entry and b in entry for a, b in FILTERED_STACK_PAIRS)


def wildcard_name(name: str) -> str:
    """Return the name under which numbered steps are aggregated: ProfilerStep#12 -> ProfilerStep*."""
    return "ProfilerStep*" if name.startswith("ProfilerStep#") else name


@lru_cache(maxsize=1)
def _cxa_demangle() -> Any:
    """Return __cxa_demangle (Itanium C++ ABI) of an installed C++ runtime; None without one."""
    import ctypes.util  # seldom needed and slow to import

    for library in (None, ctypes.util.find_library("stdc++"), ctypes.util.find_library("c++abi")):
        try:
            function = ctypes.CDLL(library).__cxa_demangle
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        function.argtypes = [ctypes.c_char_p] * 2 + [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        return function
    return None


def demangle(name: str) -> str:
    """Return the readable form of a mangled C++ name; any other name unchanged.

    Only names of the Itanium form (_Z...) are decoded; others might be valid as an encoded type.
    """
    if not name.startswith(("_Z", "__Z")):
        return name
    function = _cxa_demangle()
    if function is None:
        return name
    import ctypes

    status = ctypes.c_int(-1)
    try:
        text = function(name.encode(), None, None, ctypes.byref(status))
    except UnicodeEncodeError:
        return name
    if status.value != 0 or not text:
        return name
    try:
        readable: bytes = ctypes.string_at(text)
        return readable.decode(errors="replace")
    finally:
        free = ctypes.CDLL(None).free
        free.argtypes = [ctypes.c_void_p]
        free.restype = None
        free(text)


class StringTable(defaultdict[str, str]):
    """Dictionary name -> demangled name; a one-letter name is never decoded as a type.

    An instance belongs to one thread.
    """

    def __missing__(self, key: str) -> str:
        value = self[key] = demangle(key) if len(key) > 1 else key
        return value


def display_names(names: Sequence[str]) -> list[str]:
    """Return the demangled and wildcarded form of each name."""
    # Only names with these first characters can change; the others skip both calls.
    return [wildcard_name(demangle(name)) if name[:1] in ("_", "P") else name for name in names]
