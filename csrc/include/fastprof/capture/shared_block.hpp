// SPDX-License-Identifier: Apache-2.0
// Blocks of inputs that are kept once: ops repeat their inputs, so a capture's rows refer to the
// first block that said the same (DetailType::shapes_at). Such a block lies in payload_words like
// any other, DetailBlock and contents, but behind no row's DetailHeader.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN

// The word of a shapes_at block for the shapes block at payload_words[at].
constexpr uint64_t shared_block_word(uint32_t at) noexcept {
  return static_cast<uint64_t>(DetailType::shapes_at) | uint64_t{at} << 32;
}

// Contents inside Capture::payload_words; null when what was referred to is no shapes block.
struct SharedBlock {
  const uint64_t* words = nullptr;
  uint32_t count = 0;
  uint32_t flags = 0;  // DetailBlock::reserved
};

// The block that a shapes_at word refers to. Every index is checked.
inline SharedBlock shared_block(const Column<uint64_t>& payload_words, uint64_t word) noexcept {
  const auto at = static_cast<size_t>(word >> 32);
  SharedBlock found;
  if (at >= payload_words.size()) return found;
  const uint64_t block = payload_words[at];
  const auto count = static_cast<uint32_t>(block >> 16 & 0xFFFF);
  if ((block & 0xFFFF) != static_cast<uint64_t>(DetailType::shapes) ||
      count > payload_words.size() - at - 1)
    return found;
  found.words = payload_words.data() + at + 1;
  found.count = count;
  found.flags = static_cast<uint32_t>(block >> 32);
  return found;
}

FASTPROF_NAMESPACE_END
