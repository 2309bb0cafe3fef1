# SPDX-License-Identifier: Apache-2.0
"""The layers of the project as data: which folder may include or import which. ``check_layers.py`` enforces them.

A new folder, or a new module of the root, gets one line here. A folder must not use one of a higher layer.
"""

from __future__ import annotations

# ---- C++, public headers: folder below csrc/include/fastprof -> folders whose headers it may include ---------
# Lowest first, as for Python below: a folder names only folders that precede it, and may include its own files.
# A name also stands for the subfolders that precede. "." is the top folder: the headers that programs include.
PUBLIC = {
    "base": set[str](),
    # All that differs between operating systems: an implementation of each concept for Linux and one for Darwin.
    "platform/common": {"base"},
    "platform/linux": {"base", "platform/common"},
    "platform/darwin": {"base", "platform/common"},
    "platform": {"base", "platform"},
    # The recorder: data that the libraries of a process share; how a library finds it; the hot path; memory of records;
    # names made at run time.
    "recorder/state": {"base", "platform"},
    "recorder/process": {"base", "platform", "recorder/state"},
    "recorder/hot_path": {"base", "platform", "recorder/state", "recorder/process"},
    "recorder/store": {"base", "platform", "recorder/state", "recorder/process", "recorder/hot_path"},
    "recorder/names": {"base", "platform", "recorder"},
    "capture": {"base", "platform", "recorder"},
    "primitives": {"base", "platform", "recorder"},
    # Data of a record beside its two times.
    "payload/op_inputs": {"base"},
    "payload/perf_counters": {"base", "platform", "recorder"},
    "payload/native_stack": {"base", "platform", "recorder"},
    "payload/blocks": {"base", "platform", "recorder", "capture", "payload"},
    # Stacks of other threads, sampled.
    "sampling": {"base", "platform", "recorder", "payload"},
    # The Metal profiler, which does not use the recorder: session makes rows of what it observes.
    "metal": {"base", "primitives"},
    "leader": {"base", "platform", "recorder", "primitives", "payload"},
    "export": {"base", "recorder", "capture", "payload"},
    "session": {"base", "platform", "recorder", "capture", "primitives", "payload", "leader", "export", "metal"},
    "legacy": {"base", "platform", "recorder", "capture", "primitives", "payload", "export"},
    ".": {
        "base", "platform", "recorder", "capture", "primitives", "payload", "leader", "export", "session",
        "legacy", "metal", "sampling",
    },
}  # fmt: skip

# ---- C++, compiled: folder below csrc -> folders below csrc that it may include, beside the public headers ----------
COMPILED = {
    "adapters/python": set[str](),
    "adapters/torch/layout": set[str](),
    "adapters/torch/inputs": {"adapters/torch/layout"},
    "adapters/torch/debug_info": {"adapters/torch/layout"},
    "adapters/torch/ops": {"adapters/torch"},
    # Devices: the interface and list of backends; then the backends, which are independent of each other.
    "core": set[str](),
    "core/rank_steps": set[str](),
    "core/sqlite_pages": set[str](),
    "core/trace_rows": set[str](),
    "core/trace_json": {"core/trace_rows"},
    "core/trace_proto": {"core/trace_json", "core/trace_rows"},
    "backends/cuda": {"core"},
    "backends/rocm": {"core"},
    # Ranges that a program reports through NVTX or ITT (annotations, and the libraries injected into the program), and
    # ranges emitted to tools of both.
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
        "core/rank_steps",
        "core/sqlite_pages",
        "core/trace_json",
        "core/trace_proto",
        "core/trace_rows",
        "backends",
    },
}

# Headers of other projects: pattern -> files that may include them (path patterns below the root).
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

# ---- Python: folder of python/fastprof -> folders that it may import --------------------------------------------
# Lowest first: a folder may name only folders that precede it in this list, so imports point one way. Every folder has
# a line, and every line a folder. Modules that are named in a string ("fastprof.views.render:render_table") count.
PYTHON = {
    "base": set[str](),
    "model": {"base"},
    "formats": {"base", "model"},
    "analysis": {"base", "model"},
    "decode": {"base", "model", "analysis"},
    "exporters": {"base", "model", "formats", "analysis"},
    "importers": {"base", "model", "formats", "analysis"},
    "views": {"base", "model", "analysis", "exporters"},
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
    "flight_recorder": {"base", "model", "decode", "adapters", "record", "profiler"},
    "ranks": {"base", "model", "analysis", "exporters", "importers", "report", "profiler"},
    "attach": {"base", "model", "decode", "importers", "record", "profiler", "flight_recorder"},
    "integrations": {"base", "analysis", "exporters", "record", "profiler"},
    "cli": {
        *(
            "base",
            "model",
            "formats",
            "analysis",
            "exporters",
            "importers",
            "views",
            "report",
            "record",
        ),
        "flight_recorder",
        "ranks",
        "attach",
    },
}
# Modules of the root -> folders that they may import; None: all. Any other module belongs into a folder.
ROOT: dict[str, set[str] | None] = {
    "__init__": None,
    "__main__": {"cli"},
    "_outputs": {"base", "exporters", "views", "report"},  # named as text, imported when called
    "_paths": set[str](),
    "_version": set[str](),
    # public paths of modules that lie in a folder
    "devices": {"record"},
    "errors": {"base"},
    "itt": {"record"},
    "memory_attribution": {"analysis"},
    "metal": {"record"},
    "profiler_legacy": {"compat"},
    "stages": {"ranks"},
    "table": {"model"},
    "trace_writers": {"exporters"},
}
# Modules of the root that folders may import. The others are for programs.
GROUND = {"_outputs", "_paths", "_version"}
# Folders and files that may use the package as a program does: `from fastprof import profile`.
PROGRAMS = {"cli", "compat/__init__.py"}
# Folders, and single files of others, that may import fastprof._core.
NATIVE = {
    "adapters",
    "attach",
    "analysis/memory_attribution.py",
    "compat/profiler_legacy.py",
    "importers/chrome_trace.py",
    "importers/event_columns.py",
    "importers/native_stacks.py",
    "importers/perfetto_native.py",
    "importers/sqlite_file.py",
    "exporters/trace_writers.py",
    "ranks/rank_summary.py",
    "flight_recorder",
    "model/grouping.py",
    "model/tree.py",
    "profiler",
    "record",
    "views/python_calls.py",
}
