# SPDX-License-Identifier: Apache-2.0
"""The stub of the native module: ``stubs.py --write`` makes python/fastprof/_core.pyi from the built module.

A test compares the stub in the tree with the contents of the built module.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

STUB = Path(__file__).resolve().parents[2] / "python" / "fastprof" / "_core.pyi"
HEADER = "# SPDX-License-Identifier: Apache-2.0\n# Written by `make stubs` from the built module; do not edit.\n"


# Types written against CPython's C API carry no signatures that the generator could read.
HAND_WRITTEN = {
    "OpenRange": '''
class OpenRange:
    """
    A begun range, ended by end() on any thread.
    """

    @property
    def active(self) -> bool:
        """
        Recorded and not ended.
        """

    def end(self) -> bool:
        """
        Record the end, on whatever thread; False when it was ended before.
        """
''',
    "record_function": '''
_F = typing.TypeVar("_F", bound=collections.abc.Callable[..., typing.Any])


class record_function:
    """
    A named range: a context manager and a decorator.
    """

    def __init__(
        self,
        name: str,
        args: str | None = None,
        *,
        shapes: collections.abc.Sequence[collections.abc.Sequence[int]] | None = None,
        flops: float | None = None,
        node_id: int | None = None,
        **kwargs: typing.Any,
    ) -> None: ...
    @property
    def name(self) -> str:
        """
        The name given.
        """

    def __enter__(self) -> record_function:
        """
        Begin the range on the calling thread.
        """

    def __exit__(
        self, kind: object = None, error: object = None, trace: object = None, /
    ) -> None:
        """
        End it. Exceptions pass through.
        """

    def __call__(self, function: _F) -> _F:
        """
        Decorate: a range around each call.
        """

    def _call_end_callbacks_on_future(self, future: typing.Any) -> typing.Any:
        """
        End the range when the future completes; see fastprof.record.ranges.
        """

    def _detach(self) -> OpenRange:
        """
        Hand the end of the open range to what is returned.
        """

    def _begin_async(self) -> OpenRange:
        """
        Begin a range that may overlap others of its thread; what is returned ends it.
        """
''',
}


def generate() -> str:
    """Return the text of the stub for the module that ``import fastprof._core`` finds.

    Raises subprocess.CalledProcessError when the generator fails, for example on a type it cannot name.
    """
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                *(sys.executable, "-m", "pybind11_stubgen", "fastprof._core"),
                *("-o", folder, "--exit-code", "--numpy-array-use-type-var"),
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        found = list(Path(folder).rglob("_core.pyi")) + list(
            Path(folder).rglob("_core/__init__.pyi")
        )
        text = found[0].read_text()
    text = re.sub(r"^(\w+: str) = .*$", r"\1", text, flags=re.MULTILINE)  # differs between builds
    for name, written in HAND_WRITTEN.items():
        pattern = rf"^class {name}(\(.*\))?:\n(^(    .*)?\n)*"
        text, count = re.subn(
            pattern, lambda _, w=written: w.lstrip("\n"), text, flags=re.MULTILINE
        )
        if count != 1:
            raise LookupError(f"the generated stub has {count} classes {name}")
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", "core_stub.py", "-"],
        input=HEADER + text,
        check=True,
        capture_output=True,
        text=True,
    )
    return formatted.stdout


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        STUB.write_text(generate())
    else:
        print(generate(), end="")
