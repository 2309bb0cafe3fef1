# SPDX-License-Identifier: Apache-2.0
"""fastprof.table: EventTable and its columns. Public path of model/table.py."""

from __future__ import annotations

from fastprof.model.table import *  # noqa: F403
from fastprof.model.table import __all__ as __all__
