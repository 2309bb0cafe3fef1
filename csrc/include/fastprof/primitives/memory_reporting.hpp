// SPDX-License-Identifier: Apache-2.0
// Reports of allocations: to the profiler in the PROFILER_STATE slot and to the recorder.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/debug_info.hpp"
#include "fastprof/primitives/device.hpp"
#include "fastprof/recorder/memory.hpp"

FASTPROF_NAMESPACE_BEGIN

// A debug info that wants to hear of memory. Called on the thread that allocates; must not throw.
class MemoryReportingInfoBase : public DebugInfoBase {
 public:
  // alloc_size_bytes is negative for a free; the totals are the allocator's after the change, 0 if
  // it does not know them.
  virtual void report_memory_usage(void* ptr, int64_t alloc_size_bytes,
                                   uint64_t total_allocated_bytes, uint64_t total_reserved_bytes,
                                   Device device) noexcept = 0;
  virtual void report_out_of_memory(int64_t alloc_size_bytes, uint64_t total_allocated_bytes,
                                    uint64_t total_reserved_bytes, Device device) noexcept {
    (void)alloc_size_bytes, (void)total_allocated_bytes, (void)total_reserved_bytes, (void)device;
  }
  virtual bool memory_profiling_enabled() const noexcept = 0;
  MemoryReportingInfoBase* memory_reporting() noexcept override { return this; }
};

// The profiler of the calling thread that wants memory reports, or null. Looks only in the nearest
// PROFILER_STATE. Allocates nothing.
inline MemoryReportingInfoBase* memory_profiler() noexcept {
  DebugInfoBase* state = ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE);
  MemoryReportingInfoBase* reporting = state != nullptr ? state->memory_reporting() : nullptr;
  return reporting != nullptr && reporting->memory_profiling_enabled() ? reporting : nullptr;
}

// For allocators: tells of an allocation (bytes > 0) or a free (bytes < 0). Any thread; allocates
// nothing of its own, so it may be called inside malloc.
inline void report_memory_usage(void* ptr, int64_t alloc_size_bytes, uint64_t total_allocated_bytes,
                                uint64_t total_reserved_bytes, Device device) noexcept {
  record_memory(ptr, alloc_size_bytes, total_allocated_bytes, total_reserved_bytes,
                static_cast<int16_t>(device.type), device.index);
  if (MemoryReportingInfoBase* profiler = memory_profiler())
    profiler->report_memory_usage(ptr, alloc_size_bytes, total_allocated_bytes,
                                  total_reserved_bytes, device);
}

// For allocators: tells that a request of so many bytes could not be met.
inline void report_out_of_memory(int64_t alloc_size_bytes, uint64_t total_allocated_bytes,
                                 uint64_t total_reserved_bytes, Device device) noexcept {
  record_out_of_memory(alloc_size_bytes, total_allocated_bytes, total_reserved_bytes,
                       static_cast<int16_t>(device.type), device.index);
  if (MemoryReportingInfoBase* profiler = memory_profiler())
    profiler->report_out_of_memory(alloc_size_bytes, total_allocated_bytes, total_reserved_bytes,
                                   device);
}

FASTPROF_NAMESPACE_END
