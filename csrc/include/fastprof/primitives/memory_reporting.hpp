// SPDX-License-Identifier: Apache-2.0
// MemoryReportingInfoBase: base of a profiler in the PROFILER_STATE entry that receives memory
// reports.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/debug_info.hpp"
#include "fastprof/primitives/device_text.hpp"
#include "fastprof/primitives/report_memory.hpp"

FASTPROF_NAMESPACE_BEGIN

// Debug info that receives memory reports. Called on the allocating thread; must not throw.
class FASTPROF_VISIBLE MemoryReportingInfoBase : public DebugInfoBase {
 public:
  // alloc_size_bytes is negative for a free. The totals are the allocator's after the change, or 0
  // if it does not track them.
  virtual void report_memory_usage(void* ptr, int64_t alloc_size_bytes,
                                   uint64_t total_allocated_bytes, uint64_t total_reserved_bytes,
                                   Device device) noexcept = 0;
  // alloc_size_bytes: the size of the request that failed. Ignored by default.
  virtual void report_out_of_memory(int64_t alloc_size_bytes, uint64_t total_allocated_bytes,
                                    uint64_t total_reserved_bytes, Device device) noexcept {
    (void)alloc_size_bytes, (void)total_allocated_bytes, (void)total_reserved_bytes, (void)device;
  }
  // Whether reports are wanted now; if false, they are not made.
  virtual bool memory_profiling_enabled() const noexcept = 0;
  MemoryReportingInfoBase* memory_reporting() noexcept override { return this; }
};

// Returns the calling thread's profiler if it wants memory reports, else null. Looks only at the
// newest PROFILER_STATE entry. Does not allocate.
inline MemoryReportingInfoBase* memory_profiler() noexcept {
  DebugInfoBase* state = ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE);
  MemoryReportingInfoBase* reporting = state != nullptr ? state->memory_reporting() : nullptr;
  return reporting != nullptr && reporting->memory_profiling_enabled() ? reporting : nullptr;
}

// Leader function, see RecorderFunctions.
inline void leader_report_memory(State*, void* ptr, int64_t bytes, uint64_t total_allocated_bytes,
                                 uint64_t total_reserved_bytes, uint32_t device,
                                 bool out_of_memory) noexcept {
  MemoryReportingInfoBase* profiler = memory_profiler();
  if (profiler == nullptr) return;
  const Device where = device_of_word(device);
  if (out_of_memory)
    profiler->report_out_of_memory(bytes, total_allocated_bytes, total_reserved_bytes, where);
  else
    profiler->report_memory_usage(ptr, bytes, total_allocated_bytes, total_reserved_bytes, where);
}

FASTPROF_NAMESPACE_END
