// SPDX-License-Identifier: Apache-2.0
// Reports allocations to the recorder and to the profiler in the PROFILER_STATE entry.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/device.hpp"
#include "fastprof/primitives/thread_identity.hpp"
#include "fastprof/recorder/hot_path/memory.hpp"

FASTPROF_NAMESPACE_BEGIN

// Packs a device into the word that RecorderFunctions::report_memory takes: type in bits 0-15,
// index in bits 16-31.
constexpr uint32_t device_word(Device device) noexcept {
  return static_cast<uint32_t>(static_cast<uint16_t>(device.type)) |
         static_cast<uint32_t>(static_cast<uint16_t>(device.index)) << 16;
}
constexpr Device device_of_word(uint32_t word) noexcept {
  return {static_cast<DeviceType>(static_cast<int16_t>(word & 0xFFFF)),
          static_cast<int16_t>(word >> 16)};
}

// Reports to the profiler in the calling thread's debug info, if any. Returns early for threads
// without debug info (most).
inline void report_to_profiler(void* ptr, int64_t bytes, uint64_t total_allocated_bytes,
                               uint64_t total_reserved_bytes, Device device,
                               bool out_of_memory) noexcept {
  const ThreadPrimitivesHead* primitives = head_of(existing_thread_primitives());
  if (FASTPROF_LIKELY(primitives == nullptr || primitives->debug_info == nullptr)) return;
  State* s = state();
  s->functions->report_memory(s, ptr, bytes, total_allocated_bytes, total_reserved_bytes,
                              device_word(device), out_of_memory);
}

// For allocators: reports an allocation (alloc_size_bytes > 0) or a free (< 0). ptr: the block; the
// totals are the allocator's after the change, 0 if unknown. Any thread. Does not allocate, so it
// may be called inside malloc.
inline void report_memory_usage(void* ptr, int64_t alloc_size_bytes, uint64_t total_allocated_bytes,
                                uint64_t total_reserved_bytes, Device device) noexcept {
  record_memory(ptr, alloc_size_bytes, total_allocated_bytes, total_reserved_bytes,
                static_cast<int16_t>(device.type), device.index);
  report_to_profiler(ptr, alloc_size_bytes, total_allocated_bytes, total_reserved_bytes, device,
                     false);
}

// For allocators: reports a failed allocation of alloc_size_bytes. Thread rule and totals as above.
inline void report_out_of_memory(int64_t alloc_size_bytes, uint64_t total_allocated_bytes,
                                 uint64_t total_reserved_bytes, Device device) noexcept {
  record_out_of_memory(alloc_size_bytes, total_allocated_bytes, total_reserved_bytes,
                       static_cast<int16_t>(device.type), device.index);
  report_to_profiler(nullptr, alloc_size_bytes, total_allocated_bytes, total_reserved_bytes, device,
                     true);
}

FASTPROF_NAMESPACE_END
