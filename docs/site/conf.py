# SPDX-License-Identifier: Apache-2.0
"""Sphinx's configuration; docs/site/build_site.py makes the folder of sources that it reads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fastprof
from python_reference import as_rst

project = "fastprof"
author = "fastprof contributors"
version = release = fastprof.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "index"
html_theme = "furo"
html_title = f"fastprof {version}"
html_show_sphinx = False
html_copy_source = False
myst_heading_anchors = 4  # as GitHub makes them, so that links work on both
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
maximum_signature_line_length = 90  # longer ones: a parameter a line
python_use_unqualified_type_names = True
# Pages are for readers of both; a lexer that does not know a construct says nothing.
suppress_warnings = ["misc.highlighting_failure"]


def _docstring(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    lines[:] = as_rst(lines)


def setup(app: Any) -> None:
    """Register the translation of docstrings."""
    app.connect("autodoc-process-docstring", _docstring)
