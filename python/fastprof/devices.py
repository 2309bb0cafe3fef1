# SPDX-License-Identifier: Apache-2.0
"""fastprof.devices: register device plug-ins. Public path of record/devices.py."""

from __future__ import annotations

from fastprof.record.devices import *  # noqa: F403
from fastprof.record.devices import __all__ as __all__
