// SPDX-License-Identifier: Apache-2.0
// The record of an op: its slot, and the blocks behind it.
#pragma once

#include <cstdint>

#include "fastprof/recorder/record.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Words of the largest block of DetailType::op, its own word included.
constexpr uint32_t kOpBlockWords = 4;

// A record's blocks, at most kCapacity words of them, between the DetailHeader and the padding.
template <uint32_t kCapacity>
struct BlockWords {
  uint32_t count = 0;  // without the header and padding
  uint64_t words[1 + kCapacity + 2];

  FASTPROF_ALWAYS_INLINE void put(DetailType type, uint64_t word) noexcept {
    words[count + 1] = static_cast<uint64_t>(type) | uint64_t{1} << 16;
    words[count + 2] = word;
    count += 2;
  }
  // Before all others. Nothing without a sequence number and ids; else the number alone, or all
  // three.
  FASTPROF_ALWAYS_INLINE void put_op(int64_t sequence_nr, uint64_t forward_track,
                                     uint64_t handle) noexcept {
    if (forward_track == 0 && handle == 0) {
      if (sequence_nr >= 0) put(DetailType::op, static_cast<uint64_t>(sequence_nr));
      return;
    }
    words[1] = static_cast<uint64_t>(DetailType::op) | uint64_t{3} << 16;
    words[2] = static_cast<uint64_t>(sequence_nr);
    words[3] = forward_track;
    words[4] = handle;
    count = 4;
  }
  // Where the contents of a block of inputs go, and that they are there.
  uint64_t* room_for_inputs() noexcept { return words + count + 2; }
  FASTPROF_ALWAYS_INLINE void put_inputs(uint32_t used) noexcept {
    if (used == 0) return;
    words[count + 1] = static_cast<uint64_t>(DetailType::shapes) | uint64_t{used} << 16;
    count += 1 + used;
  }
  // Units of three words that all of it takes.
  FASTPROF_ALWAYS_INLINE uint32_t finish() noexcept {
    if (count == 0) return 0;
    words[count + 1] = words[count + 2] = 0;  // padding
    const uint32_t units = (count + 3) / 3;
    words[0] = units * uint64_t{3} - 1;  // DetailHeader
    return units;
  }
};

// Fills a reserved slot and the `units` units behind it; returns its begin. Work of another kind
// lies between two ops, so that the processor does not see where the next record goes.
FASTPROF_ALWAYS_INLINE uint64_t write_op(Slot* slot, const Site* site, const uint64_t* words,
                                         uint32_t units) noexcept {
  const Slot* next = slot + 1 + units;
  __builtin_prefetch(next + 7, 1);
  __builtin_prefetch(next + 10, 1);
  auto* unit = reinterpret_cast<Unit*>(slot + 1);
  for (uint32_t i = 0; i < units; ++i, ++unit, words += 3) {
    store_relaxed(&unit->words[0], words[0]);
    store_relaxed(&unit->words[1], words[1]);
    store_relaxed(&unit->words[2], words[2]);
  }
  const RecordTag tag = units != 0 ? RecordTag::detailed : RecordTag::slot;
  return stamp_slot(slot, 0, site_word(site, tag));
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
