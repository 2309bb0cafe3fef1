# SPDX-License-Identifier: Apache-2.0
"""fastprof config: print the flags and paths that builds of C++ programs, and tools, need."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from fastprof import _paths
from fastprof.base import errors
from fastprof.cli.options import Subparsers, command_parser

__all__ = ["QUERIES", "add_parser", "answer"]

_EPILOG = """\
examples:
  g++ -std=c++17 $(fastprof config --includes) program.cpp $(fastprof config --libs)
  cmake -B build -Dfastprof_DIR=$(fastprof config --cmakedir)
  export NVTX_INJECTION64_PATH=$(fastprof config --nvtx-injection)
"""

# Option, description, answer.
QUERIES: tuple[tuple[str, str, Callable[[], object]], ...] = (
    (
        "--includes",
        "print -I<dir> for compiling C++ against fastprof",
        lambda: f"-I{_paths.include_dir()}",
    ),
    (
        "--cflags",
        "print the compiler's flags for a C++ program that compiles --definitions once",
        _paths.compile_flags,
    ),
    ("--libs", "print the linker's flags for a C++ program", lambda: "-pthread -ldl"),
    (
        "--definitions",
        "print the C++ source to compile once for files compiled with --cflags",
        _paths.definitions_source,
    ),
    ("--cmakedir", "print the folder for fastprof_DIR in CMake", _paths.cmake_dir),
    ("--pkgconfigdir", "print the folder for PKG_CONFIG_PATH", _paths.pkg_config_dir),
    (
        "--nvtx-injection",
        "print the library that receives NVTX ranges, for NVTX_INJECTION64_PATH",
        _paths.injection_library,
    ),
    (
        "--itt-collector",
        "print the library that receives ITT tasks, for INTEL_LIBITTNOTIFY64",
        _paths.injection_library,
    ),
)


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(commands, "config", "print what builds of C++ programs need", _EPILOG)
    for flag, description, _ in QUERIES:
        parser.add_argument(flag, action="store_true", help=description)
    parser.set_defaults(command=config_command)


def config_command(options: argparse.Namespace) -> int:
    """Print the answers, a line each; return the exit code."""
    if not answer(options):
        known = ", ".join(flag for flag, _, _ in QUERIES)
        raise errors.ValueError(f"nothing is asked for. Add one of {known}.")
    return 0


def answer(options: argparse.Namespace) -> list[str]:
    """Print the answers to the given options, equal ones once; return these options."""
    asked = [
        (flag, ask) for flag, _, ask in QUERIES if getattr(options, flag[2:].replace("-", "_"))
    ]
    for ask in dict.fromkeys(ask for _, ask in asked):
        print(ask())
    return [flag for flag, _ in asked]
