// SPDX-License-Identifier: Apache-2.0
// Records of allocations.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/record.hpp"
#include "fastprof/recorder/site_macros.hpp"

FASTPROF_NAMESPACE_BEGIN

inline constexpr Site memory_site = {category::memory,
                                     SiteKind::memory,
                                     RecordScope::USER_SCOPE,
                                     0,
                                     1,
                                     "[memory]",
                                     "cpu_instant_event",
                                     "",
                                     "",
                                     0,
                                     0,
                                     nullptr,
                                     nullptr,
                                     -1,
                                     -1,
                                     0};
inline constexpr Site out_of_memory_site = {category::memory,
                                            SiteKind::out_of_memory,
                                            RecordScope::USER_SCOPE,
                                            0,
                                            1,
                                            "[OutOfMemory]",
                                            "cpu_instant_event",
                                            "",
                                            "",
                                            0,
                                            0,
                                            nullptr,
                                            nullptr,
                                            -1,
                                            -1,
                                            0};

// A byte count and the device it belongs to in one word: 48 bits, 8 bits type, 8 bits index.
constexpr uint64_t pack_device(uint64_t bytes, int16_t type, int16_t index) noexcept {
  constexpr uint64_t kBytes = (uint64_t{1} << 48) - 1;
  return (bytes > kBytes ? kBytes : bytes) |
         static_cast<uint64_t>(static_cast<uint8_t>(type)) << 48 |
         static_cast<uint64_t>(static_cast<uint8_t>(index)) << 56;
}

// An allocation (bytes > 0) or a free (bytes < 0). Totals are the allocator's after it, 0 when
// unknown; at most 2^48. Any thread; may be called inside malloc.
inline void record_memory(const void* ptr, int64_t bytes, uint64_t total_allocated_bytes,
                          uint64_t total_reserved_bytes, int16_t device_type,
                          int16_t device_index) noexcept {
  if (FASTPROF_LIKELY((load_relaxed(&state()->mask) & (category::memory | mask_bit::special)) == 0))
    return;
  const uint64_t words[3] = {static_cast<uint64_t>(bytes), total_allocated_bytes,
                             pack_device(total_reserved_bytes, device_type, device_index)};
  record_instant(memory_site, static_cast<uint64_t>(reinterpret_cast<uintptr_t>(ptr)), words);
}

// A request of so many bytes that could not be met.
inline void record_out_of_memory(int64_t bytes, uint64_t total_allocated_bytes,
                                 uint64_t total_reserved_bytes, int16_t device_type,
                                 int16_t device_index) noexcept {
  if (FASTPROF_LIKELY((load_relaxed(&state()->mask) & (category::memory | mask_bit::special)) == 0))
    return;
  const uint64_t words[3] = {total_allocated_bytes, total_reserved_bytes,
                             pack_device(0, device_type, device_index)};
  record_instant(out_of_memory_site, static_cast<uint64_t>(bytes), words);
}

FASTPROF_NAMESPACE_END
