// SPDX-License-Identifier: Apache-2.0
// The record of an op: its slot, and the blocks behind it.
#pragma once

#include <cstdint>

#include "fastprof/recorder/record.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Words that an op's blocks may take beside its inputs: the header, its numbers, its stack, its
// modules, the word of the inputs, the padding.
constexpr uint32_t kOpBlockWords = 1 + 4 + 2 + 2 + 1 + 2;

// A record's blocks, into memory of the caller: the DetailHeader first, the padding last. Two words
// more than the blocks need must be there.
class BlockWords {
 public:
  FASTPROF_ALWAYS_INLINE explicit BlockWords(uint64_t* words) noexcept
      : first_(words), at_(words + 1) {}

  FASTPROF_ALWAYS_INLINE void put(DetailType type, uint64_t word) noexcept {
    store_relaxed(at_++, static_cast<uint64_t>(type) | uint64_t{1} << 16);
    store_relaxed(at_++, word);
  }
  // Before all others. Nothing without a sequence number and ids; else the number alone, or all
  // three.
  FASTPROF_ALWAYS_INLINE void put_op(int64_t sequence_nr, uint64_t forward_track,
                                     uint64_t handle) noexcept {
    if (FASTPROF_LIKELY((forward_track | handle) == 0)) {
      uint64_t* const before = at_;
      put(DetailType::op, static_cast<uint64_t>(sequence_nr));
      at_ = sequence_nr >= 0 ? at_ : before;  // a branch around it would be a guess that fails
      return;
    }
    store_relaxed(at_++, static_cast<uint64_t>(DetailType::op) | uint64_t{3} << 16);
    store_relaxed(at_++, static_cast<uint64_t>(sequence_nr));
    store_relaxed(at_++, forward_track);
    store_relaxed(at_++, handle);
  }
  // Where the contents of a block of inputs go, and that they are there.
  uint64_t* room_for_inputs() const noexcept { return at_ + 1; }
  FASTPROF_ALWAYS_INLINE void put_inputs(uint32_t used) noexcept {
    if (FASTPROF_UNLIKELY(used == 0)) return;
    store_relaxed(at_, static_cast<uint64_t>(DetailType::shapes) | uint64_t{used} << 16);
    at_ += 1 + used;
  }
  // Units of three words that all of it takes.
  FASTPROF_ALWAYS_INLINE uint32_t finish() noexcept {
    const auto used = static_cast<uint32_t>(at_ - first_);
    if (FASTPROF_UNLIKELY(used == 1)) return 0;
    store_relaxed(&at_[0], uint64_t{0});
    store_relaxed(&at_[1], uint64_t{0});
    const uint32_t units = (used + 2) * 0xAAABu >> 17;  // / 3, below 0x8000
    store_relaxed(first_, units * uint64_t{3} - 1);     // DetailHeader
    return units;
  }
  // The same, where there are more. Last of all.
  FASTPROF_ALWAYS_INLINE void pad_to(uint32_t units) noexcept { pad(first_, at_, units); }

  const uint64_t* words() const noexcept { return first_; }
  // Without the header and the padding.
  uint32_t count() const noexcept { return static_cast<uint32_t>(at_ - first_) - 1; }

 private:
  // By value: who takes the address of this keeps the positions of every op in memory.
  FASTPROF_COLD static void pad(uint64_t* first, uint64_t* at, uint32_t units) noexcept {
    for (const uint64_t* end = first + units * 3; at < end; ++at) store_relaxed(at, uint64_t{0});
    store_relaxed(first, units * uint64_t{3} - 1);
  }

  uint64_t* first_;
  uint64_t* at_;
};

// Work of another kind lies between two ops, so that the processor does not see where the next
// records go, and the memory is seldom in a cache: a store that waits for it holds up all that
// come after. `lines`: of the cache, at least as many as an op's record takes, so that none is left
// out.
FASTPROF_ALWAYS_INLINE void expect_lines(const Slot* at, int lines) noexcept {
  for (int i = 0; i < lines; ++i) __builtin_prefetch(reinterpret_cast<const char*>(at) + 64 * i, 1);
}

// For ops to come. `next`: the slot that is blanked when this one's units are reserved.
FASTPROF_ALWAYS_INLINE void expect_records(const Slot* next, int lines) noexcept {
  expect_lines(next + 7, lines);
}

// Completes a reserved slot whose `units` units are there; returns its begin.
FASTPROF_ALWAYS_INLINE uint64_t stamp_op(Slot* slot, const Site* site, uint32_t units) noexcept {
  const RecordTag tag = units != 0 ? RecordTag::detailed : RecordTag::slot;
  return stamp_slot(slot, 0, site_word(site, tag));
}

// The same, with units from elsewhere.
FASTPROF_ALWAYS_INLINE uint64_t write_op(Slot* slot, const Site* site, const uint64_t* words,
                                         uint32_t units) noexcept {
  expect_records(slot + 1 + units, 2);
  auto* unit = reinterpret_cast<Unit*>(slot + 1);
  for (uint32_t i = 0; i < units; ++i, ++unit, words += 3) {
    store_relaxed(&unit->words[0], words[0]);
    store_relaxed(&unit->words[1], words[1]);
    store_relaxed(&unit->words[2], words[2]);
  }
  return stamp_op(slot, site, units);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
