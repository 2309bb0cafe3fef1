// SPDX-License-Identifier: Apache-2.0
// Stops of threads, which do not exist on macOS: a handler for a signal to one thread would have no
// call like process_vm_readv(2) that is allowed in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/copied_stack.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

class ThreadStops {
 public:
  static constexpr size_t kSlots = 1;
  static constexpr size_t kSlotBytes = 0;

  std::string begin() { return "native stacks are sampled on Linux only"; }
  void end() noexcept {}
  void forget() noexcept {}
  void take_turn() noexcept {}
  void end_turn() noexcept {}
  bool ask(size_t, uint32_t, const StackExtent&, bool) noexcept { return false; }
  int next(int64_t, bool) noexcept { return -1; }
  CopiedStack stack(size_t) const noexcept { return {}; }
  bool release(size_t) noexcept { return false; }
  bool cancel(size_t) noexcept { return true; }
};

inline size_t copy_stack(int, uintptr_t, size_t, char*) noexcept {
  return 0;
}
inline bool blocks_stops(uint32_t) noexcept {
  return false;
}
inline bool read_waiting_stack(uint32_t, StackRegisters*) noexcept {
  return false;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
