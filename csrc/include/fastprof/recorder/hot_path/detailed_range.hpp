// SPDX-License-Identifier: Apache-2.0
// Begins a range with detail blocks supplied by the caller (stacks, JSON), in addition to those
// that sessions request.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/record.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"

FASTPROF_NAMESPACE_BEGIN

// Maximum number of words of blocks: for a range made with arguments, and for begin_detailed (more,
// because blocks of ops contain their inputs).
constexpr uint32_t kMaxOwnDetailWords = 32;
constexpr uint32_t kMaxBlockWords = 2048;

// Begins a range of `site` without dispatching callbacks. `args`: its argument words; `blocks`:
// `count` words of blocks (each a DetailBlock word and its contents; texts are interned pointers),
// which are stored behind those that sessions request, because detail_end expects those first. The
// caller has checked wanted(). `caller`: the return address at which a native stack starts; null
// for this function's. Null slot in the result: dropped and counted.
FASTPROF_COLD inline OpenRange begin_detailed(State* s, ThreadBlock* block, const Site* site,
                                              const uint64_t* args, const uint64_t* blocks,
                                              uint32_t count,
                                              const void* caller = nullptr) noexcept {
  if (count == 0) return begin_slow(s, site, args, caller);
  if (caller == nullptr) caller = __builtin_return_address(0);
  uint64_t words[kDetailCapacity + 1];  // what comes before `blocks`
  size_t used = 1;                      // the header
  bool has_end = false;
  if ((effective_mask(s) & mask_bit::detail) != 0 && s->functions->detail_begin != nullptr) {
    const size_t requested = s->functions->detail_begin(s, block, words, kDetailCapacity, caller);
    has_end = requested != 0;
    for_each_block(words, requested,
                   [&](DetailBlock own, const uint64_t*) { used += 1u + own.count; });
  }
  const size_t units = (used + count + 2) / 3;
  words[0] = 3 * units - 1;  // DetailHeader
  Slot* slot = reserve(s, block, 1u + site->arg_units + static_cast<uint32_t>(units), site->mask);
  if (slot == nullptr) return {};
  write_args(slot, args, site->arg_count);
  auto* at = reinterpret_cast<uint64_t*>(slot + 1 + site->arg_units);
  for (size_t i = 0; i < used; ++i) store_relaxed(&at[i], words[i]);
  for (size_t i = 0; i < count; ++i) store_relaxed(&at[used + i], blocks[i]);
  for (size_t i = used + count; i < 3 * units; ++i) store_relaxed(&at[i], uint64_t{0});
  const uintptr_t word = site_word(site, RecordTag::detailed);
  const uint64_t begin = stamp_slot_any_clock(s, slot, 0, word);
  return {slot, begin_to_keep(s, begin, has_end)};
}

FASTPROF_NAMESPACE_END
