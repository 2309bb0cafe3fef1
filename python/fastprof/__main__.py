# SPDX-License-Identifier: Apache-2.0
"""``python -m fastprof``: the places a C++ build asks for, and the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from fastprof import __version__, _paths


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line on ``argv`` (default: that of the process) and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m fastprof", description="fastprof: a standalone profiler for Python and C++."
    )
    parser.add_argument("--version", action="version", version=f"fastprof {__version__}")
    parser.add_argument(
        "--includes", action="store_true", help="print -I<dir> for compiling C++ against fastprof"
    )
    parser.add_argument(
        "--cmakedir", action="store_true", help="print the folder for fastprof_DIR in CMake"
    )
    options = parser.parse_args(argv)
    if options.includes:
        print(f"-I{_paths.include_dir()}")
    if options.cmakedir:
        print(_paths.cmake_dir())
    if not (options.includes or options.cmakedir):
        parser.print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main())
