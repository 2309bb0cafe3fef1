// SPDX-License-Identifier: Apache-2.0
// Emits the process's ranges (RecordFunctions and FASTPROF_RANGE) to a tool while it is on.
#pragma once

#include <string>

#include "core/range_tool.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace range_tools {

// Attaches the tool of a kind at the first call, and returns it; later calls return the same, or
// try again if there was none. attach: returns "" once the tool is attached, else the reason with a
// remedy; not called again then. Any thread.
FoundTool attach_once(ToolKind kind, const RangeTool& tool, std::string (*attach)());

// Begins to emit the ranges that begin from now on, on all threads. NVTX ranges have PyTorch's text
// (legacy/nvtx_text.hpp); ITT ranges have their name. shapes: the NVTX text contains sizes and
// producers of inputs. A forked child goes on emitting. tool: attached. Raises StateError if ranges
// are emitted to this kind already.
void start_emitting(ToolKind kind, const RangeTool& tool, bool shapes);

// Ends it: ranges in progress are still popped when they end. No effect if nothing is emitted.
void stop_emitting(ToolKind kind) noexcept;

}  // namespace range_tools
FASTPROF_NAMESPACE_END
