# SPDX-License-Identifier: Apache-2.0
"""fastprof.itt: the functions of torch.profiler.itt. Public path of record/itt.py."""

from __future__ import annotations

from fastprof.record.itt import is_available, mark, range, range_pop, range_push

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]
