# SPDX-License-Identifier: Apache-2.0
"""The report's JavaScript has the types that its comments say, by TypeScript's compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from trace_readers import READERS

from fastprof.ranks.page import MODULES as RANK_MODULES
from fastprof.report.page_text import MODULES, page_script

pytestmark = pytest.mark.integrations


@pytest.mark.parametrize("modules", [MODULES, RANK_MODULES], ids=["report", "ranks"])
def test_the_modules_are_typed(tmp_path: Path, modules: tuple[str, ...]) -> None:
    compiler = shutil.which("tsc", path=str(READERS / "node_modules" / ".bin"))
    compiler = compiler or shutil.which("tsc")
    if compiler is None:
        pytest.skip("TypeScript is not installed (npm install -g typescript)")
    # All modules are one function: R is what they share.
    script = page_script(modules).replace("const R = {};", "/** @type {any} */\nconst R = {};")
    (tmp_path / "page.js").write_text(script)
    options = "--allowJs --checkJs --noEmit --strict --noImplicitAny false --target es2022"
    result = subprocess.run(
        [compiler, *options.split(), "--lib", "es2023,dom,dom.iterable", "page.js"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (result.returncode, result.stdout) == (0, "")
