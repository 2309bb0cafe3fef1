# SPDX-License-Identifier: Apache-2.0
"""Generate the C++ reference: the list of public declarations of the headers, and the page that shows them.

A test fails when a name here is not declared in its header any more, and when the text of docs/ uses a name of the
namespace that is missing here.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

from header_reader import Declaration, file_comment, macros, read_header

__all__ = ["SECTIONS", "Section", "documented_names", "reference_page"]

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ROOT / "csrc" / "include" / "fastprof"


class Section(NamedTuple):
    """Part of the page: what to include, the header whose top comment introduces it, and names by header."""

    title: str
    include: str
    introduction: str  # header whose comment at the top is shown; "": none
    names: dict[str, str]  # header -> names, separated by spaces


SECTIONS = (
    Section("Macros: ranges, marks, counters, flows", "annotate.hpp", "macros.hpp", {}),
    Section(
        "Macros: operators with inputs",
        "annotate.hpp",
        "",
        {
            "primitives/record_function_macros.hpp": "",
            "primitives/record_function_options.hpp": "inputs kwinputs sequence_number forward_thread_id "
            "overload_name debug_handle node_id async",
        },
    ),
    Section(
        "Session",
        "session.hpp",
        "session.hpp",
        {
            "session/session_options.hpp": "SessionOptions",
            "session/session.hpp": "Session",
            "session/backing_report.hpp": "BackingReport",
            "recorder/state/state.hpp": "OverflowPolicy",
            "base/drop_cause.hpp": "DropCause",
            "base/scope.hpp": "RecordScope category",
        },
    ),
    Section(
        "Events of a capture",
        "session.hpp",
        "",
        {
            "session/event_view.hpp": "EventView Events MemoryReport",
            "capture/capture.hpp": "Capture SiteInfo TrackInfo EventKind",
            "capture/self_times.hpp": "self_times_ns",
            "capture/merge_captures.hpp": "merge_captures",
            "payload/op_inputs/op_inputs.hpp": "OpInputs",
        },
    ),
    Section(
        "Summary",
        "summary.hpp",
        "summary.hpp",
        {"capture/summary.hpp": "SummaryRow SummaryOrder Summary summarise to_string"},
    ),
    Section(
        "Traces",
        "chrome_trace.hpp",
        "chrome_trace.hpp",
        {
            "export/chrome_trace_options.hpp": "ChromeTraceOptions",
            "export/chrome_trace.hpp": "write_chrome_trace",
            "export/perfetto_trace.hpp": "write_perfetto_trace",
        },
    ),
    Section(
        "Reading what a killed process recorded",
        "recover.hpp",
        "recover.hpp",
        {
            "session/recover.hpp": "Recovered recover",
            "session/private_folder.hpp": "make_private_folder",
        },
    ),
    Section(
        "The last seconds of a process",
        "flight_recorder.hpp",
        "flight_recorder.hpp",
        {
            "session/flight_recorder.hpp": "FlightOptions FlightRecorder",
            "session/copy_backing_file.hpp": "BackingCopy copy_backing_file",
        },
    ),
    Section(
        "Threads and thread state",
        "fastprof.hpp",
        "",
        {
            "recorder/hot_path/thread.hpp": "set_thread_name",
            "primitives/thread_identity.hpp": "current_thread_id",
            "primitives/propagate.hpp": "propagate",
            "primitives/thread_local_state.hpp": "ThreadLocalState ThreadLocalStateGuard",
            "recorder/hot_path/signal_scope.hpp": "signal_scope",
        },
    ),
    Section(
        "Memory reports",
        "annotate.hpp",
        "",
        {
            "recorder/hot_path/memory.hpp": "record_memory record_out_of_memory",
            "primitives/report_memory.hpp": "report_memory_usage report_out_of_memory",
        },
    ),
    Section(
        "Values of arguments and inputs",
        "annotate.hpp",
        "",
        {
            "primitives/value.hpp": "ValueType TensorDescription Value NamedValue to_value",
            "primitives/device.hpp": "DeviceType Device",
            "primitives/dtype.hpp": "DType",
            "primitives/span.hpp": "Span",
        },
    ),
    Section(
        "RecordFunction and callbacks",
        "fastprof.hpp",
        "",
        {
            "primitives/record_function.hpp": "RecordFunction",
            "primitives/observer.hpp": "ObserverContext RecordFunctionCallback",
            "primitives/callbacks.hpp": "add_global_callback add_thread_local_callback remove_callback "
            "disable_callback reenable_callback has_callbacks enable_record_function "
            "RecordFunctionGuard DisableRecordFunctionGuard",
            "primitives/debug_info_chain.hpp": "DebugInfoBase",
            "primitives/debug_info.hpp": "ThreadLocalDebugInfo DebugInfoGuard",
            "primitives/set_node_id.hpp": "set_default_node_id",
        },
    ),
    Section(
        "The exclusive profiler",
        "legacy.hpp",
        "legacy.hpp",
        {
            "legacy/profiler_config.hpp": "ProfilerConfig",
            "legacy/legacy_profiler.hpp": "enable_profiler disable_profiler add_remote_events",
            "legacy/legacy_event.hpp": "LegacyEvent LegacyEventLists legacy_event_kind_name",
            "legacy/stack_provider.hpp": "set_stack_provider",
            "legacy/cpp_stack_provider.hpp": "cpp_stack_provider",
            "legacy/event_bytes.hpp": "encode_event_lists",
            "legacy/write_events.hpp": "write_events",
        },
    ),
    Section(
        "Errors",
        "fastprof.hpp",
        "",
        {
            "base/error.hpp": "Error StateError ValueError UnavailableError IoError FormatError raise"
        },
    ),
)


def documented_names() -> set[str]:
    """Return every name of the namespace that the page shows, and the macros."""
    return {
        name
        for section in SECTIONS
        for header, names in section.names.items()
        for name in (*names.split(), *macros(HEADERS / header))
    } | set(macros(HEADERS / "macros.hpp"))


def found(header: str, names: str) -> list[Declaration]:
    """Return the declarations of these names in a header, in the order of the header; a missing one is an error."""
    declared = read_header(HEADERS / header)
    wanted = names.split()
    missing = set(wanted) - {declaration.name for declaration in declared}
    if missing:
        raise LookupError(f"{header} does not declare {', '.join(sorted(missing))}")
    result: list[Declaration] = []
    for declaration in declared:
        is_forward = (
            declaration.is_type and not declaration.members and "enum" not in declaration.text
        )
        later = any(d.name == declaration.name and d.members for d in declared)
        if declaration.name in wanted and not (later and (is_forward or not declaration.members)):
            result.append(declaration)
    return result


def _comment(text: str, indent: str = "") -> list[str]:
    width = 96 - len(indent)
    return [f"{indent}// {line}" for line in textwrap.wrap(text, width)] if text else []


def _members(declarations: list[Declaration], indent: str) -> list[str]:
    lines: list[str] = []
    for declaration in declarations:
        if lines and declaration.comment:
            lines.append("")
        lines += [f"{indent}// {line}".rstrip() for line in declaration.comment.splitlines()]
        code = textwrap.dedent(_body(declaration)).splitlines()
        # The first line has lost its indentation, the following ones have that of the header.
        lines += [indent + code[0], *[indent + line for line in code[1:]]]
        if declaration.trailing:
            joined = f"{lines[-1]}  // {declaration.trailing}"
            if len(joined) <= 110:
                lines[-1] = joined
            else:
                lines[-len(code) : -len(code)] = _comment(declaration.trailing, indent)
    return lines


def _body(declaration: Declaration) -> str:
    if not declaration.members:
        return declaration.text + ";"
    inner = "\n".join(_members(declaration.members, "  "))
    return f"{declaration.text} {{\n{inner}\n}};"


def reference_page() -> str:
    """Return the page as Markdown."""
    lines = [
        "# C++ reference",
        "",
        "The declarations of the public headers with their comments. Everything is in namespace `fastprof`; "
        "[docs/cpp.md](../cpp.md) explains it with programs. Link with `-pthread -ldl`.",
        "",
    ]
    for section in SECTIONS:
        lines += [f"## {section.title}", "", f"`#include <fastprof/{section.include}>`", ""]
        if section.introduction:
            lines += ["```text", file_comment(HEADERS / section.introduction), "```", ""]
        for header, names in section.names.items():
            if not names:
                listed = macros(HEADERS / header)
                lines += [", ".join(f"`{name}`" for name in listed), ""]
                text = (HEADERS / header).read_text()
                comment = re.search(r"#pragma once\n\n((?://.*\n)+)", text)
                if comment is not None:
                    plain = re.sub(r"^// ?", "", comment[1], flags=re.MULTILINE)
                    lines += ["```text", plain.rstrip(), "```", ""]
                continue
            seen: set[str] = set()
            for declaration in found(header, names):
                if declaration.name not in seen:
                    lines += [f"### {declaration.name}", ""]
                    seen.add(declaration.name)
                if declaration.comment:
                    lines += (
                        ["```text", declaration.comment, "```", ""]
                        if _is_laid_out(declaration.comment)
                        else [_prose(declaration.comment), ""]
                    )
                lines += ["```cpp", _body(declaration), "```", ""]
            lines += [f"Declared in `fastprof/{header}`.", ""]
    return "\n".join(lines)


def _is_laid_out(comment: str) -> bool:
    """Return whether a comment contains code or a table, whose line breaks must stay."""
    return any(line.startswith("  ") for line in comment.splitlines())


def _prose(comment: str) -> str:
    """Escape Markdown's markup characters outside of `code`."""
    pieces = re.split(r"(`[^`]*`)", comment)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([\\*_<>\[\]#|$])", r"\\\1", piece)
        for piece in pieces
    )
