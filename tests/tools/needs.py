# SPDX-License-Identifier: Apache-2.0
"""Marks of tests that need what a machine may lack."""

from __future__ import annotations

import pytest
from chromium import find_chromium
from cuda_double import genuine_headers

NEEDS_CHROMIUM = pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed")
NEEDS_CUPTI_HEADERS = pytest.mark.skipif(
    not genuine_headers(), reason="NVIDIA's headers of CUPTI are not here"
)
