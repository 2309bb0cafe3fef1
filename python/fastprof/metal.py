# SPDX-License-Identifier: Apache-2.0
"""fastprof.metal: signposts, statistics and captures of Metal work, with the functions of torch.mps.profiler.

Public path of record/metal.py. It can be imported on every system; on systems other than macOS its functions raise
errors.UnavailableError with the reason.
"""

from __future__ import annotations

from fastprof.record.metal import *  # noqa: F403
from fastprof.record.metal import __all__ as __all__
