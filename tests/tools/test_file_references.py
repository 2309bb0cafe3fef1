# SPDX-License-Identifier: Apache-2.0
"""Comments of the C++ sources name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_files_named_in_the_sources_exist() -> None:
    sources = [p for p in (ROOT / "csrc").rglob("*") if p.suffix in (".hpp", ".cpp", ".mm", ".h")]
    known = {p.name for p in sources} | {p.name for p in (ROOT / "tests").rglob("*.[hcm]*")}
    dead = []
    for path in sources:
        for name in set(re.findall(r"//.*?\b([a-z_]+\.(?:hpp|cpp|mm))\b", path.read_text())):
            if name not in known:
                dead.append(f"{path.relative_to(ROOT)} names {name}")
    assert len(sources) > 300
    assert dead == []
