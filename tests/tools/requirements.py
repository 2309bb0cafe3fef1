# SPDX-License-Identifier: Apache-2.0
"""Print what pyproject.toml asks for, one requirement a line, so that the tools are installed before fastprof is built.

``requirements.py build test dev`` prints the build requirements, the run-time dependencies and those extras.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def load_toml(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file, on Python 3.10 too, before anything is installed."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        from pip._vendor import tomli as tomllib
    return tomllib.loads(path.read_text())


def requirements(groups: list[str]) -> list[str]:
    """Return the requirements of ``groups`` (``build``, or the name of an extra), references to fastprof resolved."""
    tables = load_toml(PYPROJECT)
    extras = tables["project"]["optional-dependencies"]

    def expand(names: list[str]) -> Iterator[str]:
        for name in names:
            inner = re.fullmatch(r"fastprof\[([^\]]+)\]", name)
            if inner:
                for extra in inner[1].split(","):
                    yield from expand(extras[extra])
            else:
                yield name

    result = list(expand(tables["project"]["dependencies"]))
    for group in groups:
        result += expand(tables["build-system"]["requires"] if group == "build" else extras[group])
    return sorted(set(result))


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
