# SPDX-License-Identifier: Apache-2.0
"""fastprof.errors: the same classes as in C++, the same when raised from C++."""

from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof import errors

HEADER = Path(__file__).resolve().parents[3] / "csrc/include/fastprof/base/error.hpp"
BUILT_IN = {
    "StateError": RuntimeError,
    "ValueError": builtins.ValueError,
    "UnavailableError": RuntimeError,
    "IoError": OSError,
    "FormatError": builtins.ValueError,
}


def test_same_classes_as_in_cpp() -> None:
    in_cpp = re.findall(r"^class (\w+) : public Error", HEADER.read_text(), re.MULTILINE)
    assert sorted([*in_cpp, "Error"]) == errors.__all__
    assert sorted(in_cpp) == sorted(BUILT_IN)


@pytest.mark.parametrize("name", errors.__all__)
def test_raised_from_cpp(name: str) -> None:
    from fastprof import _core

    expected = getattr(errors, name)
    message = f"café: call start() before stop() ({name})"
    with pytest.raises(expected) as caught:
        _core.throw_error(name, message)
    assert type(caught.value) is expected
    assert str(caught.value) == message
    assert isinstance(caught.value, errors.Error)
    assert isinstance(caught.value, BUILT_IN.get(name, Exception))


@pytest.mark.parametrize(
    "options", [{"overflow": "spill", "spill_folder": "/no\udcff"}, {"backing_file": "/no\udcff/x"}]
)
def test_a_path_that_is_not_utf8_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(errors.IoError, match="/no\udcff"):
        fastprof.profile(**options).start()
