# SPDX-License-Identifier: Apache-2.0
# Written by `make stubs` from the built module; do not edit.
"""
The native part of fastprof. Private: use the names that `fastprof` exports.
"""

from __future__ import annotations

__all__: list[str] = ["abi_version", "compiler", "throw_error", "version"]


def abi_version() -> tuple[int, int]:
    """
    The (major, minor) version that annotated libraries of one process share.
    """


def throw_error(name: str, message: str) -> None:
    """
    Throw the C++ error of that name (any other name: Error), for the test of the mapping.
    """


compiler: str
version: str
