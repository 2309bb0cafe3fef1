# SPDX-License-Identifier: Apache-2.0
"""Baseline: the file of `pytest --fastprof` with the rounds of each test in the last runs, and on which machine."""

from __future__ import annotations

import json
import os
import platform
from typing import Any

from fastprof.base import errors
from fastprof.base.atomic_file import atomic_text
from fastprof.base.processor import processor_name

__all__ = ["KEPT_RUNS", "Baseline", "machine"]

_FORMAT = "fastprof pytest 1"
KEPT_RUNS = 5


def machine() -> str:
    """Return what times depend on: processor, number of CPUs and interpreter."""
    return f"{processor_name()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"


class Baseline:
    """Measurements by test. Each run: rounds_ns, and self_ns by function, of one recorded round."""

    def __init__(self, path: str) -> None:
        """Read a file; a missing one is an empty baseline. Raises errors.FormatError for a damaged one."""
        self.path = path
        self._machines: dict[str, dict[str, list[dict[str, Any]]]] = {}
        if not os.path.exists(path):
            return
        try:
            with open(path, encoding="utf-8") as file:
                value = json.load(file)
            if value["format"] != _FORMAT:
                raise KeyError(f"format {value['format']!r}")
            for name, tests in value["machines"].items():
                self._machines[name] = {test: list(map(_run, runs)) for test, runs in tests.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise errors.FormatError(
                f"{path}: not a baseline of pytest --fastprof: {error}. Remove it and make it again with "
                "--fastprof-update."
            ) from error

    def runs(self, test: str) -> list[dict[str, Any]]:
        """Return the runs of a test on this machine, oldest first."""
        return self._machines.get(machine(), {}).get(test, [])

    @property
    def other_machines(self) -> list[str]:
        """Machines with measurements, other than this one."""
        return sorted(set(self._machines) - {machine()})

    def add(self, test: str, run: dict[str, Any]) -> None:
        """Add a run of a test; the oldest beyond KEPT_RUNS is forgotten."""
        tests = self._machines.setdefault(machine(), {})
        tests[test] = [*tests.get(test, []), run][-KEPT_RUNS:]

    def save(self) -> None:
        """Write the file, complete or not at all. Raises errors.IoError."""
        with atomic_text(self.path) as file:
            json.dump(
                {"format": _FORMAT, "machines": self._machines}, file, indent=1, sort_keys=True
            )
            file.write("\n")


def _run(value: Any) -> dict[str, Any]:
    rounds = [int(each) for each in value["rounds_ns"]]
    if not rounds:
        raise ValueError("a run without rounds")
    return {"rounds_ns": rounds, "self_ns": {str(k): int(v) for k, v in value["self_ns"].items()}}
