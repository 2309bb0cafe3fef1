// SPDX-License-Identifier: Apache-2.0
// Shared input blocks. Ops repeat their inputs, so a capture stores each distinct block once, and
// other rows refer to it by a DetailType::op_inputs_ref word. A shared block is stored in
// payload_words as any other (DetailBlock, then contents), but follows no row's DetailHeader.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns the op_inputs_ref word that refers to the op_inputs block at payload_words[at].
constexpr uint64_t shared_block_word(uint32_t at) noexcept {
  return detail_block_word(DetailType::op_inputs_ref, 0, at);
}

// Contents of a shared block in Capture::payload_words; words is null if the reference is invalid.
struct SharedBlock {
  const uint64_t* words = nullptr;
  uint32_t count = 0;
  uint32_t flags = 0;  // DetailBlock::reserved
};

// Returns the block that an op_inputs_ref word refers to. Every index is checked.
inline SharedBlock shared_block(const Column<uint64_t>& payload_words, uint64_t word) noexcept {
  const auto at = static_cast<size_t>(word >> 32);
  SharedBlock found;
  if (at >= payload_words.size()) return found;
  const DetailBlock block = detail_block_of(payload_words[at]);
  if (block.type != DetailType::op_inputs || block.count > payload_words.size() - at - 1)
    return found;
  found.words = payload_words.data() + at + 1;
  found.count = block.count;
  found.flags = block.reserved;
  return found;
}

FASTPROF_NAMESPACE_END
