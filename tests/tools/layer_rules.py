# SPDX-License-Identifier: Apache-2.0
"""The arrows of the project, as data: who may include or import whom. ``check_layers.py`` enforces them.

A new folder or a new module of a ruled layer gets one line here; whoever adds a line that points upwards argues for it.
"""

from __future__ import annotations

# ---- C++, public headers: room (folder under csrc/include/fastprof) -> rooms whose headers it may include ---------
# From the ground up, as for Python below: a room names only rooms above it in this list, and may include its own files.
# A name stands for all rooms in that folder that are above. "." is the top folder: what programs include.
PUBLIC = {
    "base": set[str](),
    # What differs between operating systems: a form of each concept for Linux and one for Darwin, and nowhere else.
    "platform/common": {"base"},
    "platform/linux": {"base", "platform/common"},
    "platform/darwin": {"base", "platform/common"},
    "platform": {"base", "platform"},
    # The recorder: data that the libraries of a process share; how a library finds it; what a range costs; where
    # records lie; names that come and go.
    "recorder/state": {"base", "platform"},
    "recorder/process": {"base", "platform", "recorder/state"},
    "recorder/hot_path": {"base", "platform", "recorder/state", "recorder/process"},
    "recorder/store": {"base", "platform", "recorder/state", "recorder/process", "recorder/hot_path"},
    "recorder/names": {"base", "platform", "recorder"},
    "capture": {"base", "platform", "recorder"},
    "primitives": {"base", "platform", "recorder"},
    # What a record carries beside its two times.
    "payload/op_inputs": {"base"},
    "payload/perf_counters": {"base", "platform", "recorder"},
    "payload/native_stack": {"base", "platform", "recorder"},
    "payload/blocks": {"base", "platform", "recorder", "capture", "payload"},
    # The Metal profiler, which knows no recorder: session makes rows of what it observes.
    "metal": {"base", "primitives"},
    "leader": {"base", "platform", "recorder", "primitives", "payload"},
    "export": {"base", "recorder", "capture", "payload"},
    "session": {"base", "platform", "recorder", "capture", "primitives", "payload", "leader", "export", "metal"},
    "legacy": {"base", "platform", "recorder", "capture", "primitives", "payload", "export"},
    ".": {
        "base", "platform", "recorder", "capture", "primitives", "payload", "leader", "export", "session",
        "legacy", "metal",
    },
}  # fmt: skip

# ---- C++, compiled: room (folder under csrc) -> rooms under csrc it may include, beside the public headers ----------
COMPILED = {
    "adapters/python": set[str](),
    "adapters/torch/layout": set[str](),
    "adapters/torch/inputs": {"adapters/torch/layout"},
    "adapters/torch/debug_info": {"adapters/torch/layout"},
    "adapters/torch/ops": {"adapters/torch"},
    # Devices: what a backend is and which there are; the backends, which know nothing of each other.
    "core": set[str](),
    "core/sqlite_pages": set[str](),
    "core/trace_rows": set[str](),
    "core/trace_json": {"core/trace_rows"},
    "core/trace_proto": {"core/trace_json", "core/trace_rows"},
    "backends/cuda": {"core"},
    "backends/rocm": {"core"},
    # Ranges that a program reports through NVTX or ITT become records (annotations, and what is injected into the
    # program's NVTX and ITT); ranges are emitted to tools of both.
    "backends/annotations": set[str](),
    "backends/nvtx": {"core"},
    "backends/nvtx/injection": {"core", "backends/annotations", "backends/nvtx"},
    "backends/itt": {"core"},
    "backends/itt/collector": {"backends/annotations", "backends/itt"},
    "backends/plugin": {"core"},
    "backends/metal": {"core"},
    "bindings": {
        "adapters",
        "core",
        "core/sqlite_pages",
        "core/trace_json",
        "core/trace_proto",
        "core/trace_rows",
        "backends",
    },
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
    PYTHON_HEADERS: (r"csrc/bindings/.*", r"csrc/adapters/python/.*"),
    VENDOR_HEADERS: (r"csrc/backends/\w+/.*\.(cpp|mm)",),
    TORCH_HEADERS: (r"csrc/adapters/torch/.*\.cpp",),
}

# ---- Python: room (folder of python/fastprof) -> rooms it may import --------------------------------------------
# From the ground up: a room may name only rooms above it in this list, so arrows point one way. Every folder has its
# line, and every line its folder. Modules that are named in text ("fastprof.views.render:render_table") count.
ROOMS = {
    "base": set[str](),
    "model": {"base"},
    "formats": {"base", "model"},
    "analysis": {"base", "model"},
    "decode": {"base", "model", "analysis"},
    "exporters": {"base", "model", "formats", "analysis"},
    "importers": {"base", "model", "formats"},
    "views": {"base", "model", "exporters"},
    "report": {"base", "model", "exporters", "views", "analysis"},
    "adapters": {"base", "decode"},
    "record": {"base", "adapters"},
    "compat": {"base", "exporters", "importers", "record", "views"},
    "profiler": {
        "base",
        "model",
        "formats",
        "analysis",
        "decode",
        "exporters",
        "views",
        "report",
        "adapters",
        "record",
        "compat",
    },
    "integrations": {"record", "profiler"},
    "cli": {"base", "model", "analysis", "exporters", "importers", "views", "report", "record"},
}
# Modules of the root -> rooms they may import; None: all of them. What is not here belongs into a room.
ROOT: dict[str, set[str] | None] = {
    "__init__": None,
    "__main__": {"cli"},
    "_paths": set[str](),
    "_version": set[str](),
    # public paths of modules that live in a room
    "devices": {"record"},
    "errors": {"base"},
    "itt": {"record"},
    "memory_attribution": {"analysis"},
    "metal": {"record"},
    "profiler_legacy": {"compat"},
    "table": {"model"},
    "trace_writers": {"exporters"},
}
# Modules of the root that rooms may import. The others are for programs.
GROUND = {"_paths", "_version"}
# Rooms that may use the package as a program does: `from fastprof import profile`.
PROGRAMS = {"cli"}
# Rooms, and single files of others, that may import fastprof._core.
NATIVE = {
    "adapters",
    "compat/profiler_legacy.py",
    "importers/chrome_trace.py",
    "importers/event_columns.py",
    "importers/native_stacks.py",
    "importers/perfetto_native.py",
    "importers/sqlite_file.py",
    "exporters/trace_writers.py",
    "profiler",
    "record",
}
