// SPDX-License-Identifier: Apache-2.0
// RangeTool: the functions of another profiler that is attached to this process and receives its
// ranges; and the kinds of such tools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace range_tools {

enum class ToolKind : uint8_t { nvtx = 0, itt = 1 };
constexpr size_t kToolKinds = 2;

// Functions of an attached tool, never null. Any thread; ranges of one thread nest.
struct RangeTool {
  void (*push)(const char* text);
  void (*pop)();
  void (*mark)(const char* text);
};

// Result of the search for a tool: the tool, which stays attached until the process ends, or null
// and the reason with a remedy.
struct FoundTool {
  const RangeTool* tool = nullptr;
  std::string problem;
};

}  // namespace range_tools
FASTPROF_NAMESPACE_END
