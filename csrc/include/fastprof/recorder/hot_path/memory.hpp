// SPDX-License-Identifier: Apache-2.0
// Records of allocations, frees and failed allocations.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/record.hpp"
#include "fastprof/recorder/state/make_site.hpp"

FASTPROF_NAMESPACE_BEGIN

inline constexpr Site memory_site =
    make_site(SiteKind::memory, category::memory, RecordScope::USER_SCOPE, "[memory]", "", "", 0);
inline constexpr Site out_of_memory_site = make_site(
    SiteKind::out_of_memory, category::memory, RecordScope::USER_SCOPE, "[OutOfMemory]", "", "", 0);

// Packs bytes (48 bits, saturating), device type (8 bits) and device index (8 bits) into one word.
constexpr uint64_t pack_device(uint64_t bytes, int16_t type, int16_t index) noexcept {
  constexpr uint64_t kBytes = (uint64_t{1} << 48) - 1;
  return (bytes > kBytes ? kBytes : bytes) |
         static_cast<uint64_t>(static_cast<uint8_t>(type)) << 48 |
         static_cast<uint64_t>(static_cast<uint8_t>(index)) << 56;
}

// Records an allocation (bytes > 0) or a free (bytes < 0). Totals: the allocator's, in bytes after
// the event, 0 if unknown; the reserved total saturates at 2^48 - 1. Any thread; safe inside
// malloc.
inline void record_memory(const void* ptr, int64_t bytes, uint64_t total_allocated_bytes,
                          uint64_t total_reserved_bytes, int16_t device_type,
                          int16_t device_index) noexcept {
  if (FASTPROF_LIKELY((load_relaxed(&state()->mask) & (category::memory | mask_bit::special)) == 0))
    return;
  const uint64_t words[3] = {static_cast<uint64_t>(bytes), total_allocated_bytes,
                             pack_device(total_reserved_bytes, device_type, device_index)};
  record_instant(memory_site, static_cast<uint64_t>(reinterpret_cast<uintptr_t>(ptr)), words);
}

// Records a failed request of `bytes` bytes. Totals, devices and thread rule as above.
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
