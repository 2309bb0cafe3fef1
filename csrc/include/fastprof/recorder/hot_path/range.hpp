// SPDX-License-Identifier: Apache-2.0
// Range classes: Range for a scope, RangeHandle for a range that may end on another thread,
// AsyncHandle for async work.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/record.hpp"

FASTPROF_NAMESPACE_BEGIN

// Records a range from construction to destruction, on one thread. Not movable. For stackful fibers
// that migrate between threads use AsyncHandle.
class Range {
 public:
  FASTPROF_ALWAYS_INLINE explicit Range(const Site& site) noexcept : site_(&site) {
    State* s = state();
    const uint32_t mask = load_relaxed(&s->mask);
    if (FASTPROF_UNLIKELY((mask & (site.mask | mask_bit::special)) != 0)) {
      const OpenRange open = begin_fast(s, mask, &site, 0, nullptr, 0);
      slot_ = open.slot;
      begin_ = open.begin;
    }
  }
  // args: site.arg_count argument words.
  template <size_t Size>
  FASTPROF_ALWAYS_INLINE Range(const Site& site, const uint64_t (&args)[Size]) noexcept
      : site_(&site) {
    State* s = state();
    const uint32_t mask = load_relaxed(&s->mask);
    if (FASTPROF_UNLIKELY((mask & (site.mask | mask_bit::special)) != 0)) {
      const OpenRange open = begin_fast(s, mask, &site, (Size + 2) / 3, args, Size);
      slot_ = open.slot;
      begin_ = open.begin;
    }
  }
  FASTPROF_ALWAYS_INLINE ~Range() {
    if (FASTPROF_UNLIKELY(slot_ != nullptr)) end_open(OpenRange{slot_, begin_}, site_);
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

  // Whether the range is being recorded or observed by a callback.
  bool active() const noexcept { return slot_ != nullptr; }

 private:
  Slot* slot_ = nullptr;
  uint64_t begin_ = 0;
  const Site* site_;
};

// An open range that any thread may end. Trivially copyable; end it once.
struct RangeHandle {
  Slot* slot = nullptr;
  uint64_t begin = 0;
  const Site* site = nullptr;
  uint32_t track = 0;
  explicit operator bool() const noexcept { return slot != nullptr; }
};

// Begins a range without dispatching callbacks. `site` must be static or interned; `args`: its
// argument words or null. An empty handle if nothing records. Any thread.
FASTPROF_ALWAYS_INLINE RangeHandle begin_range(const Site& site,
                                               const uint64_t* args = nullptr) noexcept {
  State* s = state();
  const uint32_t mask = load_relaxed(&s->mask);
  if (FASTPROF_LIKELY((mask & (site.mask | mask_bit::special)) == 0)) return {};
  OpenRange open;
  if (FASTPROF_UNLIKELY((mask & kColdBits) != 0))
    open = begin_slow(s, &site, args);
  else
    open = begin_fast(s, mask, &site, site.arg_units, args, args == nullptr ? 0 : site.arg_count);
  if (open.slot == nullptr) return {};
  return {open.slot, open.begin, &site, thread_block()->track->id};
}

// Ends a range, on any thread; ignores an empty handle. On another than it began, the end is
// appended as a separate record.
FASTPROF_ALWAYS_INLINE void end_range(const RangeHandle& range) noexcept {
  if (range.slot == nullptr) return;
  const Track* track = thread_block()->track;
  if (FASTPROF_LIKELY(track != nullptr && track->id == range.track)) {
    end_open(OpenRange{range.slot, range.begin}, range.site);
    return;
  }
  append_end(state(), RecordTag::cross_thread_end, range.site, begin_stamp(range.begin),
             range.track);
}

// Async work in progress. Trivially copyable; any thread may end it, once.
struct AsyncHandle {
  uint64_t begin = 0;
  const Site* site = nullptr;
  uint32_t track = 0;
  explicit operator bool() const noexcept { return site != nullptr; }
};

// Begins async work; site.kind must be async_range. Its begin record is never written again, so an
// unfinished one does not keep its chunk from being reused. Any thread.
FASTPROF_ALWAYS_INLINE AsyncHandle begin_async(const Site& site) noexcept {
  State* s = state();
  const uint32_t mask = load_relaxed(&s->mask);
  if (FASTPROF_LIKELY((mask & (site.mask | mask_bit::special)) == 0)) return {};
  OpenRange open;
  if (FASTPROF_UNLIKELY((mask & kColdBits) != 0))
    open = begin_slow(s, &site, nullptr);
  else
    open = begin_fast(s, mask, &site, 0, nullptr, 0);
  if (open.slot == nullptr) return {};
  return {begin_stamp(open.begin), &site, thread_block()->track->id};
}

// Ends async work, on any thread; ignores an empty handle.
FASTPROF_ALWAYS_INLINE void end_async(const AsyncHandle& async) noexcept {
  if (async.site != nullptr)
    append_end(state(), RecordTag::async_end, async.site, async.begin, async.track);
}

FASTPROF_NAMESPACE_END
