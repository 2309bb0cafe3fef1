// SPDX-License-Identifier: Apache-2.0
// Format of the variable part of a detailed record or a captured row: a DetailHeader, then blocks.
// All readers walk it with for_each_block(); writers write the words in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/site.hpp"
#include "fastprof/recorder/state/slot.hpp"

FASTPROF_NAMESPACE_BEGIN

// Packs and unpacks the first word of a block (DetailBlock).
constexpr uint64_t detail_block_word(DetailType type, uint32_t count,
                                     uint32_t reserved = 0) noexcept {
  return static_cast<uint64_t>(type) | static_cast<uint64_t>(count) << 16 |
         static_cast<uint64_t>(reserved) << 32;
}
constexpr DetailBlock detail_block_of(uint64_t word) noexcept {
  return {static_cast<DetailType>(word & 0xFFFF), static_cast<uint16_t>(word >> 16 & 0xFFFF),
          static_cast<uint32_t>(word >> 32)};
}

// Whether the block's first word refers to an interned text: by pointer in a record, by index into
// `strings` in a Capture.
constexpr bool is_text(DetailType type) noexcept {
  return type == DetailType::json || type == DetailType::modules || type == DetailType::overload;
}

// Calls visit(block, contents) for each block in order. contents[0, block.count) are its words and
// contents[-1] is its DetailBlock word. words[0] is the DetailHeader; `room` is the number of
// readable words from there. The walk ends at padding, or when a visit that returns bool returns
// false. Returns false if the header or a block claims more words than there are; such a block is
// not visited. Safe on chunk memory that its thread is writing.
template <class Word, class Visit>
inline bool for_each_block(Word* words, size_t room, Visit&& visit) {
  static_assert(std::is_same_v<std::remove_const_t<Word>, uint64_t>, "details are 64-bit words");
  if (room == 0) return false;
  size_t left = static_cast<uint32_t>(load_relaxed(words));  // DetailHeader::words
  if (left > room - 1) return false;
  for (++words; left != 0;) {
    const DetailBlock block = detail_block_of(load_relaxed(words));
    if (block.type == DetailType{}) return true;  // padding
    ++words;
    --left;
    if (block.count > left) return false;
    if constexpr (std::is_same_v<decltype(visit(block, words)), bool>) {
      if (!visit(block, words)) return true;
    } else {
      visit(block, words);
    }
    words += block.count;
    left -= block.count;
  }
  return true;
}

FASTPROF_NAMESPACE_END
