# SPDX-License-Identifier: Apache-2.0
"""Memory by category: input, parameter, activation, gradient, optimizer state, temporary, autograd detail.

The category of memory follows from the data flow over the inputs of ops, as in PyTorch's memory profiler:
storages.py finds the storages, flow.py their versions, rules.py the categories of the versions, and
MemoryProfile has the results.
"""

from fastprof.analysis.memory_categories.kinds import (
    CATEGORY_ORDER,
    Action,
    Category,
    category_name,
)
from fastprof.analysis.memory_categories.profile import MemoryProfile, TimelineEntry
from fastprof.analysis.memory_categories.storages import Storage

__all__ = [
    "CATEGORY_ORDER",
    "Action",
    "Category",
    "MemoryProfile",
    "Storage",
    "TimelineEntry",
    "category_name",
]
