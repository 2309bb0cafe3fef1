# SPDX-License-Identifier: Apache-2.0
"""``python -m fastprof``: same as the command ``fastprof``."""

from __future__ import annotations

import sys

from fastprof.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
