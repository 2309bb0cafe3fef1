// SPDX-License-Identifier: Apache-2.0
// Lines of the calling code. A recorded call has the line at which the innermost recorded Python
// function made it, so that the time of calls can be attributed to lines.
//
// A line is found once per instruction and kept with the code object (CodeInfo::lines); later calls
// from there read it with two loads.
#pragma once

#include "adapters/python/call_stack.hpp"
#include "adapters/python/frames.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// The instruction of a frame that makes a call. code: borrowed; null: unknown.
struct CallingInstruction {
  PyObject* code;
  intptr_t unit;  // index among the code's units; below 0: not started
};

#if FASTPROF_INTERNAL_FRAMES
// frame: null if there is none.
FASTPROF_ALWAYS_INLINE CallingInstruction
instruction_of(const _PyInterpreterFrame* frame) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  while (frame != nullptr && (is_of_loop(frame) || !has_started(frame, code_of(frame))))
    frame = frame->previous;
#else
  while (frame != nullptr && is_of_loop(frame)) frame = frame->previous;
#endif
  if (FASTPROF_UNLIKELY(frame == nullptr)) return {nullptr, 0};
  PyObject* code = code_of(frame);
  return {code, unit_of(frame, code)};
}
#endif

// Returns the instruction of the calling thread's innermost frame. GIL.
CallingInstruction innermost_instruction() noexcept;

// Returns the line at which the stack's thread makes the call that is about to begin, as the line
// bits of a slot; 0: unknown. For any call; looks the line up if this is the first call from there.
// GIL.
uintptr_t find_call_line(const CallStack& calls, CallingInstruction caller) noexcept;

// As above if the innermost call is recorded and the line is already known; else 0.
FASTPROF_ALWAYS_INLINE uintptr_t known_call_line(const CallStack& calls,
                                                 CallingInstruction caller) noexcept {
  if (FASTPROF_UNLIKELY(calls.empty())) return 0;
  const CallEntry& by = calls.innermost();  // without lines if it is not recorded
  const bool direct = by.key == caller.code && by.info->lines != nullptr;
  if (FASTPROF_UNLIKELY(!direct)) return 0;
  return uintptr_t{by.info->lines[caller.unit]} << kCallLineShift;
}

// Begins a call whose line is not known yet.
FASTPROF_COLD void begin_at_new_line(CallStack& calls, const void* key, const Site* site,
                                     const CodeInfo* info, CallingInstruction caller) noexcept;

// Begins a call that `caller` makes. info: of the callee's code; unknown_code_info for functions
// written in C.
FASTPROF_ALWAYS_INLINE void begin_at(CallStack& calls, const void* key, const Site* site,
                                     const CodeInfo* info, CallingInstruction caller) noexcept {
  const uintptr_t line = site == nullptr ? 0 : known_call_line(calls, caller);
  if (FASTPROF_UNLIKELY(line == 0 && site != nullptr))
    begin_at_new_line(calls, key, site, info, caller);
  else
    calls.begin(key, site, info, line);
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
