# SPDX-License-Identifier: Apache-2.0
"""Allocator domain and overhead of a bytearray. CPython 3.13 changed the domain; 3.15 stores the bytes separately."""

from __future__ import annotations

import sys

# The domain of a bytearray's memory, and what is allocated there beyond its length.
OF_BYTEARRAY = "python:mem" if (3, 13) <= sys.version_info < (3, 15) else "python:object"
MORE_BYTES = sys.getsizeof(b"") if sys.version_info >= (3, 15) else 1
