# SPDX-License-Identifier: Apache-2.0
"""page_parts: the report as one HTML file: modules and style sheets of `page/`, and the data. It makes no request.

No text of a profile is part of the markup: all data are in base64 blocks that page/decode.js reads. The content
security policy allows only the script and the style sheet, by their hashes: no request, frame, form or inline
handler.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from fastprof.report.dataset import Dataset
from fastprof.report.details import to_bytes
from fastprof.report.packing import pack_text

__all__ = ["MODULES", "STYLES", "page_parts", "page_script"]

# Modules in the order of their definition. At definition a module may use those above it, later all of them.
MODULES = (
    "base",
    "format",
    "decode",
    "model",
    "state",
    "aggregate",
    "flame_tree",
    "controls",
    "details",
    "chart",
    "lanes",
    "timeline_marks",
    "timeline_draw",
    "overview",
    "timeline",
    "flame",
    "table",
    "summary",
    "source_lines",
    "source",
    "steps",
    "memory",
    "diff",
    "main",
)
STYLES = ("style", "views")


_FOLDER = Path(__file__).parent / "page"


@lru_cache(maxsize=2)
def page_script(names: tuple[str, ...] = MODULES) -> str:
    """Return a page's script: the modules of these names in one function."""
    modules = [(_FOLDER / f"{name}.js").read_text("utf-8") for name in names]
    return '"use strict";\n(() => {\nconst R = {};\n' + "\n".join(modules) + "\n})();\n"


@lru_cache(maxsize=2)
def _style(names: tuple[str, ...]) -> str:
    return "\n".join((_FOLDER / f"{name}.css").read_text("utf-8") for name in names)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page_parts(
    datasets: Mapping[str, Dataset],
    modules: tuple[str, ...] = MODULES,
    styles: tuple[str, ...] = STYLES,
    title: str = "fastprof report",
) -> Iterator[bytes]:
    """Yield the bytes of a page. datasets: by prefix of their blocks' names ("a", and "b" for a comparison).

    modules, styles: names of the files of `page/` that it consists of; default: the report of a profile.
    """
    script, style = page_script(modules), _style(styles)
    policy = (
        f"default-src 'none'; script-src 'sha256-{_hash(script)}'; style-src 'sha256-{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        "<noscript>This report needs JavaScript, which is disabled. Enable it, or open the file in a browser"
        " that runs scripts.</noscript>\n"
        '<div id="report"><p id="opening">Opening the report …</p></div>\n'
    ).encode()
    for prefix, dataset in datasets.items():
        yield from _block(f"{prefix}:head", pack_text(to_bytes(dataset.head), 1))
        for name, text in dataset.texts.items():
            yield from _block(f"{prefix}:text:{name}", pack_text(text, 6))
        for name, data in dataset.blocks.items():
            yield from _block(f"{prefix}:block:{name}", binascii.b2a_base64(data, newline=False))
    yield f"<script>{script}</script>\n</body>\n</html>\n".encode()


def _block(name: str, base64_text: bytes) -> Iterator[bytes]:
    """Yield a data block: a script element with a type that browsers do not execute."""
    yield f'<script type="application/octet-stream" data-block="{name}">'.encode()
    yield base64_text
    yield b"</script>\n"
