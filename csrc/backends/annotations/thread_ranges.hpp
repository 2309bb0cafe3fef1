// SPDX-License-Identifier: Apache-2.0
// Per-thread stack of the ranges that a program has pushed and not popped. Once something has
// recorded, ranges pushed while nothing records are kept as well, so that a pop always ends the
// range of its own push.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/record.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {

// A pushed range. `domain`: identity of its domain. Each domain has a stack of its own in NVTX's
// terms, although all domains share this one.
struct PushedRange {
  OpenRange open;  // null slot: not recorded
  const Site* site;
  const void* domain;
  uint32_t level;  // number of ranges below it in its domain
};

constexpr int kNoRange = -1;     // a pop without a push
constexpr int kNotTracked = -2;  // NVTX_NO_PUSH_POP_TRACKING

// Whether a range was ever recorded. Before that, a push needs no entry: its pop finds either no
// entry, or an outer range whose inner ranges have all ended. Relaxed: set by the thread that
// pushes; another thread that reads false has no entries.
inline bool g_tracking = false;

// The calling thread's stack. Trivial, so that its thread-local instance needs neither constructor
// nor guard; small, so that it fits into the static thread-local storage that the C library
// reserves for libraries loaded late.
struct ThreadRanges {
  PushedRange* entries;
  uint32_t depth;
  uint32_t capacity;
  uint32_t seen_names;  // see thread_names.hpp
};
inline thread_local ThreadRanges t_ranges{};

// Frees the entries when the thread ends.
struct EntriesOwner {
  ~EntriesOwner() {
    std::free(t_ranges.entries);
    t_ranges = ThreadRanges{};
  }
};

// Grows the stack. Returns false if memory is exhausted.
FASTPROF_COLD inline bool grow(ThreadRanges& ranges) noexcept {
  static thread_local EntriesOwner owner;
  (void)owner;
  __atomic_store_n(&g_tracking, true, __ATOMIC_RELAXED);
  const uint32_t capacity = ranges.capacity == 0 ? 32 : ranges.capacity * 2;
  auto* entries =
      static_cast<PushedRange*>(std::realloc(ranges.entries, capacity * sizeof(PushedRange)));
  if (entries == nullptr) return false;
  ranges.entries = entries;
  ranges.capacity = capacity;
  return true;
}

// Returns the level of a new range when the innermost range is of another domain.
FASTPROF_COLD inline uint32_t level_below(ThreadRanges& ranges, const void* domain) noexcept {
  for (uint32_t i = ranges.depth; i-- != 0;)
    if (ranges.entries[i].domain == domain) return ranges.entries[i].level + 1;
  return 0;
}

// Adds a range; open.slot is null if it is not recorded. Returns its level from 0, kNoRange if
// memory is exhausted (its pop then ends an outer range).
FASTPROF_ALWAYS_INLINE int push_range(ThreadRanges& ranges, const void* domain,
                                      const OpenRange& open, const Site* site) noexcept {
  const uint32_t index = ranges.depth;
  if (FASTPROF_UNLIKELY(index == ranges.capacity) && !grow(ranges)) return kNoRange;
  PushedRange* const range = ranges.entries + index;
  uint32_t level = 0;
  if (index != 0)
    level = FASTPROF_LIKELY(range[-1].domain == domain) ? range[-1].level + 1
                                                        : level_below(ranges, domain);
  *range = PushedRange{open, site, domain, level};
  ranges.depth = index + 1;
  return static_cast<int>(level);
}

// Removes the innermost range of a domain from below ranges of others.
FASTPROF_COLD inline PushedRange take_from_below(ThreadRanges& ranges,
                                                 const void* domain) noexcept {
  for (uint32_t i = ranges.depth; i-- != 0;) {
    if (ranges.entries[i].domain != domain) continue;
    const PushedRange found = ranges.entries[i];
    for (uint32_t j = i + 1; j < ranges.depth; ++j) ranges.entries[j - 1] = ranges.entries[j];
    --ranges.depth;
    return found;
  }
  return PushedRange{{}, nullptr, nullptr, UINT32_MAX};
}

// Ends the calling thread's innermost range of a domain. Returns its level, or kNoRange.
FASTPROF_ALWAYS_INLINE int pop_range(const void* domain) noexcept {
  if (!__atomic_load_n(&g_tracking, __ATOMIC_RELAXED)) return kNotTracked;
  ThreadRanges& ranges = t_ranges;
  const uint32_t depth = ranges.depth;
  if (FASTPROF_UNLIKELY(depth == 0)) return kNoRange;
  const PushedRange* const top = ranges.entries + depth - 1;
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
