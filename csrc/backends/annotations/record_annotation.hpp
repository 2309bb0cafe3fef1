// SPDX-License-Identifier: Apache-2.0
// Records a program's annotations: ranges of a thread, ranges that any thread may end, and marks.
// RecordFunction callbacks are not called: an observer that emits ranges to a tool would receive
// its own ranges again.
#pragma once

#include <cstdint>
#include <string_view>

#include "backends/annotations/annotation_sites.hpp"
#include "backends/annotations/started_ranges.hpp"
#include "backends/annotations/thread_names.hpp"
#include "backends/annotations/thread_ranges.hpp"
#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"
#include "fastprof/recorder/hot_path/range.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {

// Returns the process's mask if a session may record one of the categories `wanted`, else 0.
FASTPROF_ALWAYS_INLINE uint32_t recording_mask(uint32_t wanted) noexcept {
  const uint32_t mask = load_relaxed(&state()->mask);
  return (mask & (wanted | mask_bit::special)) != 0 ? mask : 0;
}

// Begins a record of `site`, which the caller's NameUse keeps valid. args: its argument words;
// null: none.
FASTPROF_ALWAYS_INLINE OpenRange begin_record(uint32_t mask, const Site* site,
                                              const uint64_t* args) noexcept {
  State* s = state();
  if (FASTPROF_UNLIKELY((mask & kColdBits) != 0)) return begin_slow(s, site, args);
  if (args == nullptr) return begin_fast(s, mask, site, 0, nullptr, 0);
  return begin_fast(s, mask, site, site->arg_units, args, site->arg_count);
}

// Records and pushes a range without attributes. `mask`: recording_mask(), not 0.
FASTPROF_ALWAYS_INLINE int push_recorded(uint32_t mask, const void* domain,
                                         std::string_view name) noexcept {
  ThreadRanges& ranges = t_ranges;
  apply_awaiting_name(ranges.seen_names);
  NameUse use;
  const Site* site = session_site(use, range_sites[0], name);
  return push_range(ranges, domain, begin_record(mask, site, nullptr), site);
}

// As above, with attributes.
FASTPROF_ALWAYS_INLINE int push_recorded(uint32_t mask, const void* domain, std::string_view name,
                                         const Attributes& attributes) noexcept {
  const size_t layout = attributes.layout();
  if (layout == 0) return push_recorded(mask, domain, name);
  uint64_t words[kAttributeWords];
  put_attributes(attributes, words);
  ThreadRanges& ranges = t_ranges;
  apply_awaiting_name(ranges.seen_names);
  NameUse use;
  const Site* site = session_site(use, range_sites[layout], name);
  return push_range(ranges, domain, begin_record(mask, site, words), site);
}

// Pushes a range while nothing records, so that its pop finds it.
FASTPROF_ALWAYS_INLINE int push_unrecorded(const void* domain) noexcept {
  if (!__atomic_load_n(&g_tracking, __ATOMIC_RELAXED)) return kNotTracked;
  return push_range(t_ranges, domain, OpenRange{}, nullptr);
}

// Begins a range that any thread may end. Returns an empty handle if it is not recorded.
inline AsyncHandle start_recorded(uint32_t mask, std::string_view name,
                                  const Attributes& attributes) noexcept {
  const size_t layout = attributes.layout();
  uint64_t words[kAttributeWords];
  put_attributes(attributes, words);
  apply_awaiting_name(t_ranges.seen_names);
  NameUse use;
  const Site* site = session_site(use, async_sites[layout], name);
  const OpenRange open = begin_record(mask, site, layout == 0 ? nullptr : words);
  if (open.slot == nullptr) return {};
  return {(open.begin >> 63) != 0 ? ~open.begin : open.begin, site, thread_block()->track->id};
}

// Records an instant.
inline void mark_recorded(std::string_view name, const Attributes& attributes) noexcept {
  const size_t layout = attributes.layout();
  uint64_t words[kAttributeWords] = {};
  put_attributes(attributes, words);
  apply_awaiting_name(t_ranges.seen_names);
  NameUse use;
  record_instant(*session_site(use, mark_sites[layout], name), 0, layout == 0 ? nullptr : words);
}

}  // namespace annotations
FASTPROF_NAMESPACE_END
