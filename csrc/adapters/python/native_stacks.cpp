// SPDX-License-Identifier: Apache-2.0
#include "adapters/python/native_stacks.hpp"

#include <algorithm>

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

void NativeStacks::walk(const platform::CopiedStack& stack, platform::StackExtent* extent) {
  walked_ = walker_.walk(stack, frames_.data(), kMaxFrames);
  extent->update(walked_.high, walked_.cut, platform::ThreadStops::kSlotBytes);
}

// Removes the frames that start the program or thread: those of the interpreter and the C library
// around the outermost evaluation loop.
void NativeStacks::leave_out_start() {
  uint32_t loops_end = 0;
  for (uint32_t i = 0; i < walked_.count; ++i)
    if (classify_(frames_[i]) == NativeFrame::evaluation) loops_end = i + 1;
  if (loops_end == 0) return;
  while (walked_.count > loops_end && classify_(frames_[walked_.count - 1]) != NativeFrame::shown)
    --walked_.count;
}

// Removes the innermost evaluation loops, whose Python frames are not in the stack yet.
void NativeStacks::leave_out_loops(uint32_t count) {
  for (uint32_t i = 0; i < walked_.count && count != 0; ++i) {
    if (classify_(frames_[i]) != NativeFrame::evaluation) continue;
    std::copy(frames_.begin() + i + 1, frames_.begin() + walked_.count, frames_.begin() + i);
    --walked_.count;
    --count;
    --i;
  }
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
