# SPDX-License-Identifier: Apache-2.0
"""Each public function and class says on which threads it may be used."""

from __future__ import annotations

import enum
import inspect

import fastprof


def test_every_public_name_has_a_thread_rule() -> None:
    lacking, seen = [], 0
    for name in fastprof.__all__:
        value = getattr(fastprof, name)
        is_constant = inspect.isclass(value) and issubclass(value, (enum.Enum, BaseException))
        if not callable(value) or is_constant:
            continue
        seen += 1
        if "thread" not in (inspect.getdoc(value) or "").lower():
            lacking.append(name)
    assert lacking == [] and seen > 40
