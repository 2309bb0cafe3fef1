// SPDX-License-Identifier: Apache-2.0
// The exclusive profiler's DeviceStubs for NVTX and ITT: ranges and marks go to the attached tool.
#pragma once

#include "core/range_tool.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace range_tools {

// Registers the DeviceStubs of a kind, unless the program has registered its own. They are enabled
// if find() returns a tool; find() is first called when a profiler queries them. Any thread.
void register_tool_stubs(ToolKind kind, FoundTool (*find)());

}  // namespace range_tools
FASTPROF_NAMESPACE_END
