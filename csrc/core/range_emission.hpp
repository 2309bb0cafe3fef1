// SPDX-License-Identifier: Apache-2.0
// Emits the process's ranges (RecordFunctions and FASTPROF_RANGE) to an attached tool.
#pragma once

#include <string>

#include "core/range_tool.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace range_tools {

// Attaches the tool of a kind at the first call and returns it. Later calls return the same tool,
// or retry if there was none. attach: returns "" once the tool is attached, else the reason with a
// remedy. Any thread.
FoundTool attach_once(ToolKind kind, const RangeTool& tool, std::string (*attach)());

// Emits the ranges that begin from now on, on all threads. NVTX ranges have PyTorch's text
// (legacy/nvtx_text.hpp), ITT ranges their name. tool: attached. shapes: the NVTX text includes
// sizes and producers of inputs. A forked child goes on emitting. Raises StateError if ranges are
// already emitted to this kind. Any thread.
void start_emitting(ToolKind kind, const RangeTool& tool, bool shapes);

// Stops emitting; ranges in progress are still popped when they end. Does nothing if nothing is
// emitted. Any thread.
void stop_emitting(ToolKind kind) noexcept;

}  // namespace range_tools
FASTPROF_NAMESPACE_END
