# SPDX-License-Identifier: Apache-2.0
"""Registry of the functions that render or export an EventList, by name.

EventList's methods resolve them here when called, so `import fastprof.views` loads neither rendering
nor exporting, and a new output needs one line.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["OUTPUTS", "output"]

# Name -> "module:attribute".
OUTPUTS = {
    "options": "fastprof.views.render:TableOptions",
    "table": "fastprof.views.render:render_table",
    "html": "fastprof.views.html_view:render_html",
    "tree": "fastprof.views.tree_text:tree_text",
    "tree_options": "fastprof.views.tree_text:TreeOptions",
    "plot": "fastprof.views.plot:plot",
    "stack_metrics": "fastprof.exporters.stacks:STACK_METRICS",
    "stacks": "fastprof.exporters.stacks:export_stacks",
    "chrome": "fastprof.exporters.list_trace:export_chrome_trace",
    "columns": "fastprof.exporters.tabular:list_columns",
    "pandas": "fastprof.exporters.tabular:to_pandas",
    "polars": "fastprof.exporters.tabular:to_polars",
    "arrow": "fastprof.exporters.tabular:to_arrow",
    "csv": "fastprof.exporters.tabular:export_csv",
    "json": "fastprof.exporters.tabular:export_json",
}


def output(name: str) -> Any:
    """Import and return the function or class registered under a name of OUTPUTS."""
    module, attribute = OUTPUTS[name].split(":")
    return getattr(import_module(module), attribute)
