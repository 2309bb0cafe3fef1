// SPDX-License-Identifier: Apache-2.0
// Per-thread stack of ranges that were pushed by a program and not popped yet. Entries are also
// kept while nothing records, so that a pop always ends the range that its push began.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/record.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {

// A pushed range. `domain`: identity of the domain in which it was pushed; each has its own stack,
// as far as the program can see.
struct PushedRange {
  OpenRange open;  // null slot: not recorded
  const Site* site;
  const void* domain;
  uint32_t level;  // ranges below it in its domain
};

constexpr uint32_t kInlineRanges = 16;
constexpr int kNoRange = -1;  // a pop without a push

// Trivial, so that its thread-local instance needs no constructor and no guard.
struct ThreadRanges {
  uint32_t depth;
  uint32_t more_capacity;
  PushedRange* more;  // entries from kInlineRanges on
  PushedRange first[kInlineRanges];

  FASTPROF_ALWAYS_INLINE PushedRange* at(uint32_t index) noexcept {
    return FASTPROF_LIKELY(index < kInlineRanges) ? &first[index] : &more[index - kInlineRanges];
  }
};
inline thread_local ThreadRanges t_ranges{};

// Frees the entries beyond the inline ones when the thread ends.
struct MoreRangesOwner {
  ~MoreRangesOwner() {
    std::free(t_ranges.more);
    t_ranges.more = nullptr;
    t_ranges.more_capacity = 0;
    t_ranges.depth = 0;
  }
};

// Makes room for entry `index`. False if memory is exhausted.
FASTPROF_COLD inline bool grow(ThreadRanges& ranges, uint32_t index) noexcept {
  static thread_local MoreRangesOwner owner;
  (void)owner;
  const uint32_t capacity = ranges.more_capacity == 0 ? 64 : ranges.more_capacity * 2;
  auto* more =
      static_cast<PushedRange*>(std::realloc(ranges.more, capacity * sizeof(PushedRange)));
  if (more == nullptr) return false;
  ranges.more = more;
  ranges.more_capacity = capacity;
  return index - kInlineRanges < capacity;
}

// The level of a range that is pushed onto others of several domains.
FASTPROF_COLD inline uint32_t level_below(ThreadRanges& ranges, const void* domain) noexcept {
  for (uint32_t i = ranges.depth; i-- != 0;)
    if (ranges.at(i)->domain == domain) return ranges.at(i)->level + 1;
  return 0;
}

// Adds a range; open.slot is null if it is not recorded. Returns its level from 0, kNoRange if
// memory is exhausted (its pop then ends an outer range).
FASTPROF_ALWAYS_INLINE int push_range(const void* domain, const OpenRange& open,
                                      const Site* site) noexcept {
  ThreadRanges& ranges = t_ranges;
  const uint32_t index = ranges.depth;
  if (FASTPROF_UNLIKELY(index >= kInlineRanges && index - kInlineRanges >= ranges.more_capacity) &&
      !grow(ranges, index))
    return kNoRange;
  uint32_t level = 0;
  if (index != 0) {
    const PushedRange* below = ranges.at(index - 1);
    level = FASTPROF_LIKELY(below->domain == domain) ? below->level + 1
                                                     : level_below(ranges, domain);
  }
  *ranges.at(index) = PushedRange{open, site, domain, level};
  ranges.depth = index + 1;
  return static_cast<int>(level);
}

// Removes the innermost range of a domain from below ranges of others.
FASTPROF_COLD inline PushedRange take_from_below(ThreadRanges& ranges,
                                                 const void* domain) noexcept {
  for (uint32_t i = ranges.depth; i-- != 0;) {
    if (ranges.at(i)->domain != domain) continue;
    const PushedRange found = *ranges.at(i);
    for (uint32_t j = i + 1; j < ranges.depth; ++j) *ranges.at(j - 1) = *ranges.at(j);
    --ranges.depth;
    return found;
  }
  return PushedRange{{}, nullptr, nullptr, UINT32_MAX};
}

// Ends the calling thread's innermost range of a domain. Returns its level, or kNoRange.
FASTPROF_ALWAYS_INLINE int pop_range(const void* domain) noexcept {
  ThreadRanges& ranges = t_ranges;
  const uint32_t depth = ranges.depth;
  if (FASTPROF_UNLIKELY(depth == 0)) return kNoRange;
  const PushedRange* top = ranges.at(depth - 1);
  if (FASTPROF_LIKELY(top->domain == domain)) {
    ranges.depth = depth - 1;
    if (top->open.slot != nullptr) end_open(top->open, top->site);
    return static_cast<int>(top->level);
  }
  const PushedRange found = take_from_below(ranges, domain);
  if (found.open.slot != nullptr) end_open(found.open, found.site);
  return found.level == UINT32_MAX ? kNoRange : static_cast<int>(found.level);
}

}  // namespace annotations
FASTPROF_NAMESPACE_END
