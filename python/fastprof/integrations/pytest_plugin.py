# SPDX-License-Identifier: Apache-2.0
"""The options and the mark of `pytest --fastprof`. Without the option nothing else of fastprof is loaded."""

from __future__ import annotations

from typing import Any

__all__ = ["pytest_addoption", "pytest_configure"]

_MARK = (
    "fastprof(max_growth=PERCENT, rounds=N): measured by `pytest --fastprof`, and failed if it takes longer than the "
    "baseline beyond noise"
)


def pytest_addoption(parser: Any) -> None:
    """Add the options."""
    group = parser.getgroup("fastprof", "fastprof: fail tests that became slower")
    group.addoption(
        "--fastprof", action="store_true", help="measure tests that are marked with @pytest.mark.fastprof"
    )  # fmt: skip
    group.addoption("--fastprof-all", action="store_true", help="measure every test")
    group.addoption(
        "--fastprof-baseline",
        metavar="FILE",
        default="fastprof-baseline.json",
        help="file of earlier measurements to compare with (default: %(default)s, in the root folder)",
    )
    group.addoption(
        "--fastprof-update",
        action="store_true",
        help="add the measurements to the baseline, which keeps the last five runs, instead of comparing",
    )
    group.addoption(
        "--fastprof-max-growth",
        type=float,
        metavar="PERCENT",
        default=10.0,
        help="fail a test that takes longer by more, beyond noise (default: %(default)s)",
    )
    group.addoption(
        "--fastprof-rounds",
        type=int,
        metavar="N",
        default=20,
        help="repetitions of a test, at least 5 (default: %(default)s, or as many as fit into 10 s)",
    )


def pytest_configure(config: Any) -> None:
    """Register the mark, and, with the option, what measures."""
    config.addinivalue_line("markers", _MARK)
    if config.getoption("fastprof") or config.getoption("fastprof_all"):
        from fastprof.integrations.pytest_gate import Gate

        config.pluginmanager.register(Gate(config), "fastprof-gate")
