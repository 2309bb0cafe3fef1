# SPDX-License-Identifier: Apache-2.0
"""The stub of the native module: ``stubs.py --write`` makes python/fastprof/_core.pyi from the built module.

A test compares the stub in the tree with what the module that was built really offers.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

STUB = Path(__file__).resolve().parents[2] / "python" / "fastprof" / "_core.pyi"
HEADER = "# SPDX-License-Identifier: Apache-2.0\n# Written by `make stubs` from the built module; do not edit.\n"


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
