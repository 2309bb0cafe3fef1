# SPDX-License-Identifier: Apache-2.0
"""Markdown pages as GitHub shows them: links, anchors of headings, text without code."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

_FENCE = re.compile(r"^( *)(```+).*?^\1\2`* *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+(?:\([^()\s]*\))?)\)")


def prose(text: str) -> str:
    """Return a page without its code blocks."""
    return _FENCE.sub("", text)


def links(text: str) -> list[str]:
    """Return the targets of all links and pictures."""
    return _LINK.findall(re.sub(r"`[^`\n]+`", "code", prose(text)))


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    seen: dict[str, int] = {}
    result = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", prose(text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        kept = "".join(c for c in plain if c in " -_" or unicodedata.category(c)[0] in "LN")
        slug = kept.strip().replace(" ", "-")
        number = seen.get(slug, 0)
        seen[slug] = number + 1
        result.add(f"{slug}-{number}" if number else slug)
    return result


def broken_links(page: Path) -> list[str]:
    """Return the links of a page to files and anchors that do not exist. Addresses of the web are not tried."""
    broken = []
    for link in links(page.read_text()):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (
            anchor and path.suffix == ".md" and anchor not in anchors(path.read_text())
        ):
            broken.append(link)
    return broken
