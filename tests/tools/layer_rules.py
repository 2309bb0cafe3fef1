# SPDX-License-Identifier: Apache-2.0
"""The arrows of the project, as data: who may include or import whom. ``check_layers.py`` enforces them.

A new folder or a new module of a ruled layer gets one line here; whoever adds a line that points upwards argues for it.
"""

from __future__ import annotations

# ---- C++, public headers: folder under csrc/include/fastprof -> folders whose headers it may include ---------------
# Every folder may include its own files. "." is the top folder: the umbrella header and the macros.
PUBLIC = {
    "base": set[str](),
    "recorder": {"base"},
    "capture": {"base", "recorder"},
    "primitives": {"base", "recorder"},
    "process": {"base", "recorder", "primitives", "range_detail"},
    "range_detail": {"base", "recorder", "capture"},
    "export": {
        "base",
        "recorder",
        "capture",
        "range_detail",
    },  # range_detail: it decodes what rows carry
    "session": {"base", "recorder", "process", "capture", "primitives", "range_detail", "export"},
    "legacy": {"base", "recorder", "capture", "primitives", "range_detail", "export"},
    ".": {
        "base",
        "recorder",
        "process",
        "capture",
        "primitives",
        "range_detail",
        "export",
        "session",
        "legacy",
    },
}

# ---- C++, compiled: folder under csrc -> folders under csrc it may include, beside the public headers ----------------
# Backends do not know each other: backends/<name> may include backends/<its own name> and the files of backends itself.
COMPILED = {
    "core": set[str](),
    "observers": {"core"},
    "backends": {"core"},
    "adapters": {"core"},
    "bindings": {"core", "observers", "backends", "adapters"},
}

# Headers of others: pattern -> where it may be included (path patterns below the root).
PYTHON_HEADERS = (
    r"Python\.h|pybind11/.*|structmember\.h|frameobject\.h|pythread\.h|internal/pycore_.*"
)
VENDOR_HEADERS = (
    r"cuda\w*\.h|cuda/.*|cupti\w*\.h|nvtx3/.*|nvToolsExt\w*\.h|nvml\.h|ittnotify\.h|jitprofiling\.h|"
    r"hip/.*|roctracer/.*|rocprofiler.*|level_zero/.*|Metal/.*|Foundation/.*|IOKit/.*"
)
TORCH_HEADERS = r"torch/.*|ATen/.*|c10/.*"
FOREIGN = {
    PYTHON_HEADERS: (r"csrc/bindings/.*",),
    VENDOR_HEADERS: (r"csrc/backends/\w+/.*\.(cpp|mm)",),
    TORCH_HEADERS: (r"csrc/adapters/torch/.*\.cpp",),
}

# ---- Python: module or package under fastprof -> what it may import from fastprof -----------------------------------
# FOUNDATION knows nothing above itself and may be imported by all. A module that is named nowhere may import anything
# but the native part.
FOUNDATION = {
    "_paths",
    "_version",
    "columns",
    "device_type",
    "errors",
    "import_watch",
    "native_format",
    "nesting",
    "same_enum",
    "sites",
    "units",
}
PYTHON = {
    "table": set[str](),
    "tree": {"table"},
    "grouping": {"tree", "table"},
    "instants": {"table"},
    "views": {"grouping", "tree", "table", "instants"},
    "table_fit": set[str](),
    "render": {"views", "tree", "table", "table_fit"},
    "exporters": {"tree", "table"},
    "importers": {"table"},
    "op_inputs": set[str](),
    "op_columns": {"op_inputs", "flops", "table"},
    "detail_columns": {"op_columns", "table"},
    "consolidate": {"table", "op_columns", "detail_columns"},
    "step_schedule": set[str](),
    "futures": set[str](),
    "torch_tracers": set[str](),
    "integrations": {"profiler", "ranges"},
}
# Who may not be imported by anybody: each needs a package that fastprof does not depend on.
ENDS = {"integrations"}
# Forwarding: the field's interface puts table() and export_*() on the view itself, so these may import upwards inside a
# function (when it is called), never when the module is loaded.
FORWARDING = {"views": {"render", "exporters"}}
# Who may import fastprof._core; a package of that name counts with its files.
NATIVE = {
    "profiler",
    "profiler_legacy",
    "ranges",
    "propagation",
    "activities",
    "build_facts",
    "trace_writers",
    "torch_tracers",
}
