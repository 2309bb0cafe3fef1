// SPDX-License-Identifier: Apache-2.0
// Writes the record of an op: its slot and the detail blocks that follow.
#pragma once

#include <cstdint>

#include "fastprof/recorder/hot_path/record.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Maximum words of an op's blocks without the inputs: header, numbers, stack, modules, block word
// of the inputs, padding.
constexpr uint32_t kOpBlockWords = 1 + 4 + 2 + 2 + 1 + 2;

// Encodes the blocks of a record into the caller's memory: first the DetailHeader, last the
// padding. Needs room for two words more than the blocks.
class BlockWords {
 public:
  FASTPROF_ALWAYS_INLINE explicit BlockWords(uint64_t* words) noexcept
      : first_(words), at_(words + 1) {}

  FASTPROF_ALWAYS_INLINE void put(DetailType type, uint64_t word) noexcept {
    store_relaxed(at_++, detail_block_word(type, 1));
    store_relaxed(at_++, word);
  }
  // Call before other blocks. Puts nothing if there is no sequence number and no id; the sequence
  // number alone if there are no ids; else all three.
  FASTPROF_ALWAYS_INLINE void put_op(int64_t sequence_nr, uint64_t forward_track,
                                     uint64_t handle) noexcept {
    if (FASTPROF_LIKELY((forward_track | handle) == 0)) {
      uint64_t* const before = at_;
      put(DetailType::op, static_cast<uint64_t>(sequence_nr));
      at_ = sequence_nr >= 0 ? at_ : before;  // conditional move: a branch would be mispredicted
      return;
    }
    store_relaxed(at_++, detail_block_word(DetailType::op, 3));
    store_relaxed(at_++, static_cast<uint64_t>(sequence_nr));
    store_relaxed(at_++, forward_track);
    store_relaxed(at_++, handle);
  }
  // Position for the contents of an inputs block; put_inputs() then completes the block.
  uint64_t* room_for_inputs() const noexcept { return at_ + 1; }
  FASTPROF_ALWAYS_INLINE void put_inputs(uint32_t used) noexcept {
    if (FASTPROF_UNLIKELY(used == 0)) return;
    store_relaxed(at_, detail_block_word(DetailType::op_inputs, used));
    at_ += 1 + used;
  }
  // Writes header and padding. Returns the total number of units of three words.
  FASTPROF_ALWAYS_INLINE uint32_t finish() noexcept {
    const auto used = static_cast<uint32_t>(at_ - first_);
    if (FASTPROF_UNLIKELY(used == 1)) return 0;
    store_relaxed(&at_[0], uint64_t{0});
    store_relaxed(&at_[1], uint64_t{0});
    const uint32_t units = (used + 2) * 0xAAABu >> 17;  // / 3, below 0x8000
    store_relaxed(first_, units * uint64_t{3} - 1);     // DetailHeader
    return units;
  }
  // As finish(), with a larger number of units. Call last.
  FASTPROF_ALWAYS_INLINE void pad_to(uint32_t units) noexcept { pad(first_, at_, units); }

  const uint64_t* words() const noexcept { return first_; }
  // Number of words without header and padding.
  uint32_t count() const noexcept { return static_cast<uint32_t>(at_ - first_) - 1; }

 private:
  // By value: taking the address of this object would force its members into memory for every op.
  FASTPROF_COLD static void pad(uint64_t* first, uint64_t* at, uint32_t units) noexcept {
    for (const uint64_t* end = first + units * 3; at < end; ++at) store_relaxed(at, uint64_t{0});
    store_relaxed(first, units * uint64_t{3} - 1);
  }

  uint64_t* first_;
  uint64_t* at_;
};

// Prefetches for writing. Other work runs between two ops, so the hardware prefetcher does not
// predict where the next records go, and their memory is seldom cached; a store that misses delays
// all later ones. `lines`: cache lines, at least as many as an op's record takes, so that none is
// skipped.
FASTPROF_ALWAYS_INLINE void expect_lines(const Slot* at, int lines) noexcept {
  for (int i = 0; i < lines; ++i) __builtin_prefetch(reinterpret_cast<const char*>(at) + 64 * i, 1);
}

// Prefetches for the following ops. `next`: the slot that is blanked when this op's units are
// reserved.
FASTPROF_ALWAYS_INLINE void expect_records(const Slot* next, int lines) noexcept {
  expect_lines(next + 7, lines);
}

// Completes a reserved slot with `units` written units. Returns its begin stamp.
FASTPROF_ALWAYS_INLINE uint64_t stamp_op(Slot* slot, const Site* site, uint32_t units) noexcept {
  const RecordTag tag = units != 0 ? RecordTag::detailed : RecordTag::slot;
  return stamp_slot(slot, 0, site_word(site, tag));
}

// As stamp_op, copying the units from `words`.
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
