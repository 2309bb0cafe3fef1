// SPDX-License-Identifier: Apache-2.0
// RangeTool: another profiler that is attached to this process and takes ranges from it, and the
// kinds of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace range_tools {

enum class ToolKind : uint8_t { nvtx = 0, itt = 1 };
constexpr size_t kToolKinds = 2;

// Functions of an attached tool. Any thread; ranges of a thread nest. Never null.
struct RangeTool {
  void (*push)(const char* text);
  void (*pop)();
  void (*mark)(const char* text);
};

// Result of looking for a tool: null and the reason with a remedy, or the tool, which stays
// attached until the process ends.
struct FoundTool {
  const RangeTool* tool = nullptr;
  std::string problem;
};

}  // namespace range_tools
FASTPROF_NAMESPACE_END
