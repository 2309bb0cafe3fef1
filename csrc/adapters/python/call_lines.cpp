// SPDX-License-Identifier: Apache-2.0
// Lines of the calling code: see call_lines.hpp.
#include "adapters/python/call_lines.hpp"

#include <algorithm>
#include <cstdlib>

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

constexpr uint32_t kMostFrames = 32;  // searched for a recorded one
constexpr size_t kMostCCalls = 8;     // between a frame and a call that it caused

Py_ssize_t units_of(PyObject* code) noexcept {
#if PY_VERSION_HEX >= 0x030B0000
  return Py_SIZE(code);
#else
  return PyBytes_GET_SIZE(reinterpret_cast<PyCodeObject*>(code)->co_code) / 2;
#endif
}

// The line of an instruction; 0: it has none, or one beyond what a record can have.
uint32_t line_of(CallingInstruction at) noexcept {
  if (at.unit < 0 || at.unit >= units_of(at.code)) return 0;
  const int line =
      PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(at.code), static_cast<int>(at.unit * 2));
  return line <= 0 || line >= static_cast<int>(kNoCallLine) ? 0 : static_cast<uint32_t>(line);
}

// Calls line_of() and stores the result for known_call_line().
uint32_t keep_line(const CodeInfo* info, CallingInstruction at) noexcept {
#if !defined(Py_GIL_DISABLED)
  if (info == &unknown_code_info || at.unit < 0 || at.unit >= units_of(at.code)) return 0;
  if (info->lines != nullptr && info->lines[at.unit] != 0) return info->lines[at.unit];
  const uint32_t line = line_of(at);
  if (info->lines == nullptr) {
    const auto units = static_cast<size_t>(units_of(at.code));
    // One entry more, at the front, for a frame that has not started.
    auto* memory = static_cast<uint16_t*>(std::calloc(units + 1, sizeof(uint16_t)));
    if (memory == nullptr) return line;
    info->lines = memory + 1;
  }
  info->lines[at.unit] = static_cast<uint16_t>(line == 0 ? kNoCallLine : line);
  return line;
#else
  (void)info;
  return line_of(at);
#endif
}

uintptr_t in_record(uint32_t line) noexcept {
  return uintptr_t{line} << kCallLineShift;
}

// The frames that called the innermost calls, some of which are not recorded.
FASTPROF_NOINLINE uint32_t line_of_recorded(const CallStack& calls, PyObject* code) noexcept {
  PythonFrame frames[kMostFrames];
  const uint32_t count = walk_python_frames(PyThreadState_Get(), frames, kMostFrames);
  uint32_t at = 0;
  while (at < count && frames[at].code != code) ++at;
  size_t depth = calls.depth();
  for (; at < count; ++at) {
    while (depth != 0 && calls.at(depth - 1).key != frames[at].code) --depth;
    if (depth == 0) return 0;
    const CallEntry& entry = calls.at(--depth);
    if (entry.begin != 0) return keep_line(entry.info, {frames[at].code, frames[at].offset / 2});
  }
  return 0;
}

}  // namespace

CallingInstruction innermost_instruction() noexcept {
  PythonFrame frame{nullptr, 0};
  walk_python_frames(PyThreadState_Get(), &frame, 1);
  return {frame.code, frame.offset / 2};
}

uintptr_t find_call_line(const CallStack& calls, CallingInstruction caller) noexcept {
  if (caller.code == nullptr) return 0;
  // Calls of functions written in C may lie in between.
  for (size_t up = 1; up <= std::min(calls.depth(), kMostCCalls); ++up) {
    const CallEntry& entry = calls.at(calls.depth() - up);
    if (entry.key != caller.code) continue;
    if (entry.begin == 0) break;
    return in_record(keep_line(entry.info, caller));
  }
  return in_record(line_of_recorded(calls, caller.code));
}

void begin_at_new_line(CallStack& calls, const void* key, const Site* site, const CodeInfo* info,
                       CallingInstruction caller) noexcept {
  calls.begin(key, site, info, find_call_line(calls, caller));
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
