# SPDX-License-Identifier: Apache-2.0
"""fastprof.memory_attribution: attribute allocations to ranges. Public path of analysis/memory_attribution.py."""

from __future__ import annotations

from fastprof.analysis.memory_attribution import RULES, attribute_memory

__all__ = ["RULES", "attribute_memory"]
