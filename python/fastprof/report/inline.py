# SPDX-License-Identifier: Apache-2.0
"""inline_report: the HTML report as a frame in the output of a notebook's cell."""

from __future__ import annotations

__all__ = ["MAX_INLINE_BYTES", "inline_report"]

# A notebook keeps its outputs in its file, which editors load as a whole.
MAX_INLINE_BYTES = 16 << 20


def inline_report(page: bytes, height: int) -> str:
    """Return an iframe element that shows a page of report.export.html_page. height: in CSS pixels.

    The frame contains the page and is sandboxed: the page's scripts run, without access to the notebook, its origin
    or the network. Downloads (the table as CSV) are allowed.
    """
    text = page.decode("utf-8").replace("&", "&amp;").replace('"', "&quot;")
    return (
        f'<iframe srcdoc="{text}" sandbox="allow-scripts allow-downloads" '
        f'style="width:100%;height:{int(height)}px;border:1px solid rgba(128,128,128,.4)" '
        'title="fastprof report"></iframe>'
    )
