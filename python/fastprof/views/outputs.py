# SPDX-License-Identifier: Apache-2.0
"""Where an EventList's text and files come from, by name.

The methods of EventList that render and export look the function up here when they are called, so
`import fastprof.views` loads neither, and a new output is one line.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["OUTPUTS", "output"]

# Name -> "module:attribute".
OUTPUTS = {
    "options": "fastprof.views.render:TableOptions",
    "table": "fastprof.views.render:render_table",
    "html": "fastprof.views.render:render_html",
    "stack_metrics": "fastprof.exporters.stacks:STACK_METRICS",
    "stacks": "fastprof.exporters.stacks:export_stacks",
    "chrome": "fastprof.exporters.chrome_python:export_chrome_trace",
    "columns": "fastprof.exporters.tabular:list_columns",
    "pandas": "fastprof.exporters.tabular:to_pandas",
    "polars": "fastprof.exporters.tabular:to_polars",
    "arrow": "fastprof.exporters.tabular:to_arrow",
    "csv": "fastprof.exporters.tabular:export_csv",
    "json": "fastprof.exporters.tabular:export_json",
}


def output(name: str) -> Any:
    """The function or class behind a name of OUTPUTS."""
    module, attribute = OUTPUTS[name].split(":")
    return getattr(import_module(module), attribute)
