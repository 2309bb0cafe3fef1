// SPDX-License-Identifier: Apache-2.0
// ExecutionObserver: interface that receives every profiled run, copy and fallback, in addition to
// signposts and statistics. session/metal_activities.hpp implements it to add rows to sessions.
#pragma once

#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/metal/platform.hpp"
#include "fastprof/metal/statistics.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

enum class WorkKind : uint8_t { graph = 0, kernel = 1, copy = 2, cpu_fallback = 3 };

// One run, copy or fallback, as it begins.
struct Work {
  WorkKind kind = WorkKind::kernel;
  uint64_t profile_id = 0;
  std::string name;    // with its tensors; of a copy, its kind
  uint64_t bytes = 0;  // of a copy; copy overhead of a fallback
  CopyKind copy_kind = CopyKind::mps_to_mps;
  bool on_gpu = true;      // false: a fallback, or a copy without a blitter
  bool is_commit = false;  // a whole command buffer, seen when it was committed
};

// begun() and ended() are called by the threads that call the profiler, completed() by any. The
// profiler holds no lock meanwhile.
class ExecutionObserver {
 public:
  virtual ~ExecutionObserver() = default;
  // Returns a number that identifies the work in the functions below; 0: they are not called for
  // it.
  virtual uint64_t begun(const Work& work) noexcept = 0;
  // The work is encoded and, if its end commits, committed. `queue`: null for work of the CPU.
  virtual void ended(uint64_t number, const Queue* queue) noexcept = 0;
  // The GPU has completed the command buffer. Not called for work of the CPU.
  virtual void completed(uint64_t number, const BufferTimes& times) noexcept = 0;
};

}  // namespace metal
FASTPROF_NAMESPACE_END
