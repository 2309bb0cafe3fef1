# SPDX-License-Identifier: Apache-2.0
"""The skips that continuous integration allows, each with its reason.

`.ci/run` sets FASTPROF_CI_STAGE to the name of its stage. If it is set, a run of the tests
fails when any other test is skipped (tests/conftest.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Allowed(NamedTuple):
    """A rule: skips that a stage allows. place and reason: regular expressions, matched from the beginning."""

    stage: str
    place: str  # file or test, as pytest names it
    reason: str
    why: str


class Skip(NamedTuple):
    """A file or test that pytest skipped, and the reason given."""

    place: str
    reason: str


_INTEGRATION = r"tests/python/integration/test_\w+\.py$"  # a file as a whole, when it is collected
ALLOWED = (
    Allowed(
        "core",
        _INTEGRATION,
        r".*(torch|jax|lightning|transformers|accelerate|trio|IPython|nbclient|matplotlib|pyarrow)",
        "needs a package that fastprof does not depend on; the stage integrations runs it",
    ),
    Allowed(
        "integrations",
        r"tests/python/integration/test_rank_hta\.py::",
        r"HTA's traces cannot be fetched",
        "real traces of GPU jobs, which are not in this tree: the test fetches them where there is a network",
    ),
    Allowed(
        "integrations",
        r"tests/python/integration/test_rank_engines\.py::",
        r"ray is not installed",
        "Ray has no wheels for the newest interpreters",
    ),
    Allowed(
        "core",
        r"tests/python/integration/test_outside_sampling\.py::",
        r"no other CPython 3\.13 to 3\.15 is on this machine",
        "reads a process of another interpreter where there is one",
    ),
    Allowed(
        "core",
        r"tests/python/integration/test_run_ends\.py::",
        r"needs (joblib|sklearn|torch)$",
        "needs a package that fastprof does not depend on",
    ),
    Allowed(
        "core",
        r"tests/python/integration/test_python_calls\.py::",
        r"there is a place for each profiler|a thread has one profile function",
        "what CPython <= 3.11 cannot do, and what it alone does",
    ),
    Allowed(
        "core",
        r"tests/python/unit/test_(tasks|task_crossings)\.py::",
        r"(eager tasks|asyncio\.TaskGroup|create_task\(context=\)) came with",
        "what an older CPython does not have",
    ),
    Allowed(
        "core",
        r"tests/python/integration/test_metal_backend\.py::",
        r"the Metal backend (is built with|needs)|clang has no library of the sanitizer",
        "clang, GNUstep and a runtime of blocks are packages of the system, which .ci/run installs where it may",
    ),
    Allowed(
        "integrations",
        r"tests/python/integration/test_metal_torch\.py::",
        r"the Metal backend (is built with|needs)",
        "clang, GNUstep and a runtime of blocks are packages of the system, which .ci/run installs where it may",
    ),
    Allowed(
        "integrations",
        r"tests/python/integration/test_metal_headers\.py::",
        r"pyobjc-framework-Metal cannot be downloaded",
        "the package is for macOS: it can only be downloaded, from an index that has it",
    ),
    Allowed(
        "integrations",
        r"tests/python/integration/test_rocm\.py::",
        r"AMD's headers of rocprofiler-sdk are not here",
        "no package that can be installed without ROCm has them: ROCM_HEADERS names their folders",
    ),
    Allowed(
        "integrations",
        r"tests/python/integration/test_(sampling_writers|traces_of_others)\.py::",
        r"(node|perf|gcc|clang\+\+) is not installed|[\w-]+ may not observe processes here|perf has no stackcollapse",
        "programs of the system, which a machine may lack; containers may forbid ptrace and perf events",
    ),
    Allowed(
        "core",
        r"tests/python/integration/test_attach\.py::",
        r"tracing is not permitted",
        "containers may forbid ptrace",
    ),
    Allowed(
        "core",
        r"tests/python/integration/test_full_disk\.py::",
        r"mounting a tmpfs is not permitted",
        "a file system that is full needs root, and a container that may mount",
    ),
    Allowed(
        "core",
        r"tests/python/integration/test_sample_shares\.py::",
        r"the system does not say in which call a thread is",
        "a kernel or container without /proc/PID/syscall",
    ),
    Allowed(
        "core",
        r"tests/python/integration/test_free_threaded_headers\.py::",
        r"no headers of CPython >= 3\.13",
        "another CPython than the one that runs the tests, which a machine may lack",
    ),
    Allowed(
        "integrations",
        r"tests/python/integration/test_torch_parity\.py::",
        r"torch\.profiler sees no (arguments|memory) on all threads|by that rule what another thread allocates",
        "PyTorch's own profiler, which is compared with, does not have it",
    ),
    Allowed(
        "integrations",
        r"tests/python/integration/test_(report_(page|data_kinds|look)|rank_page)\.py::",
        r"no Chromium is installed",
        "a browser is a package of the system, which .ci/run installs where it may",
    ),
)


def unlisted(stage: str, skips: Iterable[Skip], allowed: Iterable[Allowed] = ALLOWED) -> list[Skip]:
    """Return the skips that no rule allows in this stage."""
    rules = [rule for rule in allowed if rule.stage == stage]
    return [
        skip
        for skip in skips
        if not any(
            re.match(rule.place, skip.place) and re.match(rule.reason, skip.reason)
            for rule in rules
        )
    ]
