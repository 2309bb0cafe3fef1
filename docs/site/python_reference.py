# SPDX-License-Identifier: Apache-2.0
"""Generate the Python reference: the page of all public names, and fastprof's docstrings as reStructuredText.

Docstrings are plain text for readers of the source: paragraphs, indented code, `names` in single backquotes. They are
converted to markup that docutils reads without warnings, because the strict build makes warnings errors.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module

__all__ = ["GROUPS", "as_rst", "documented_names", "reference_page"]

# Title -> names of fastprof, in the order of the page. A test compares them with dir(fastprof).
GROUPS = {
    "Profile": "profile schedule ProfilerAction tensorboard_trace_handler rank_trace_handler CallFilter "
    "ProfilerActivity supported_activities",
    "Annotate": "record_function mark counter flow flow_begin flow_end propagate set_thread_name "
    "report_memory_usage report_out_of_memory",
    "NVTX and ITT": "receive_nvtx receive_itt emit_nvtx emit_itt",
    "Files": "save load recover merge_tables",
    "Results": "EventList FunctionEvent FunctionEventAvg InstantEvent EventTable EventTree",
}
# Class -> base whose members, and those of its own bases, are not listed: it is an implementation detail.
INHERITED = {"profile": "object", "EventList": "RowList"}
# Module of fastprof -> title. Each has a section with the names of its __all__.
MODULES = {
    "errors": "Exceptions",
    "table": "Tables",
    "analysis": "Analysis",
    "flight_recorder": "Flight recorder",
    "trace_writers": "Trace writers",
    "ranks": "Many ranks",
    "stages": "Stages, always on",
    "metal": "Metal",
    "devices": "Device plug-ins",
}
PYTORCH = {
    "compat": "For PyTorch's sake",
    "profiler_legacy": "The legacy profiler",
    "itt": "ITT, as torch.profiler.itt",
}


def documented_names() -> set[str]:
    """Return the names of fastprof that the page shows."""
    return {name for names in GROUPS.values() for name in names.split()} | set(MODULES)


def reference_page() -> str:
    """Return the page as reStructuredText. Needs fastprof with its native module to be importable."""
    import fastprof

    lines = ["Python reference", "================", ""]
    lines += [
        "The public names of ``fastprof``, from their docstrings. `fastprof.errors`_ lists the exceptions.",
        "",
    ]
    root = documented_names()
    for title, names in GROUPS.items():
        lines += [title, "-" * len(title), ""]
        for name in names.split():
            lines += _entry("fastprof", name, getattr(fastprof, name))
    for module, title in {**MODULES, **PYTORCH}.items():
        found = import_module(f"fastprof.{module}")
        if module == "errors":
            lines += [".. _fastprof.errors:", ""]
        lines += [title, "-" * len(title), "", f".. automodule:: fastprof.{module}", ""]
        for name in found.__all__:
            if not name.startswith("_") and name not in root:  # EventTable has an entry
                lines += _entry(f"fastprof.{module}", name, getattr(found, name))
    return "\n".join(lines)


def _entry(module: str, name: str, value: object) -> list[str]:
    if inspect.isclass(value):
        base = INHERITED.get(name)
        inherited = [f"   :inherited-members: {base}"] if base else []
        return [f".. autoclass:: {module}.{name}", "   :members:", *inherited, ""]
    kind = "autofunction" if callable(value) else "autodata"
    return [f".. {kind}:: {module}.{name}", ""]


_DOUBLE = re.compile(r"(``.+?``)")
_PARAMETER = re.compile(r"^([a-z_]+(?:, [a-z_]+)*): ")
_SINGLE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def as_rst(lines: list[str]) -> list[str]:
    """Return a docstring's lines: indented blocks become literal, lines "name: ..." list items.

    Other markup characters are escaped.
    """
    result: list[str] = []
    block: list[str] = []
    in_item = False
    for line in [*lines, "end"]:
        if line.startswith("  ") or (block and not line.strip()):
            block.append(line)
            continue
        if block:
            if result and result[-1].strip():
                result.append("")
            result += ["::", "", *block, ""]
            block = []
        if _PARAMETER.match(line):
            if result and result[-1].strip():
                result.append("")
            in_item = True
            result.append(_escaped(_PARAMETER.sub(r"- `\1`: ", line)))
        else:
            in_item = in_item and bool(line.strip())
            result.append("  " * in_item + _escaped(line))
    return result[:-1]


def _escaped(line: str) -> str:
    line = _SINGLE.sub(r"``\1``", line)
    pieces = _DOUBLE.split(line)
    return "".join(
        piece if piece.startswith("``") else re.sub(r"([\\*|])|(?<=\w)(_)(?!\w)", r"\\\g<0>", piece)
        for piece in pieces
    )
