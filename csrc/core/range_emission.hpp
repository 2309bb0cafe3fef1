// SPDX-License-Identifier: Apache-2.0
// Emits the process's ranges (RecordFunctions and FASTPROF_RANGE) to a tool while it is on.
#pragma once

#include "core/range_tool.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace range_tools {

// Begins to emit the ranges that begin from now on, on all threads. NVTX ranges have PyTorch's text
// (legacy/nvtx_text.hpp); ITT ranges have their name. shapes: the NVTX text contains sizes and
// producers of inputs. A forked child goes on emitting. tool: attached. Raises StateError if ranges
// are emitted to this kind already.
void start_emitting(ToolKind kind, const RangeTool& tool, bool shapes);

// Ends it: ranges in progress are still popped when they end. No effect if nothing is emitted.
void stop_emitting(ToolKind kind) noexcept;

}  // namespace range_tools
FASTPROF_NAMESPACE_END
