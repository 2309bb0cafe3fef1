// SPDX-License-Identifier: Apache-2.0
// Ranges as objects: Range for a scope, RangeHandle for one that may move between threads,
// AsyncRange for work that ends elsewhere.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/record.hpp"

FASTPROF_NAMESPACE_BEGIN

// A range of the calling thread, from construction to destruction. Not movable; it must end on its
// thread. With stackful fibers that migrate between threads use AsyncRange.
class Range {
 public:
  FASTPROF_ALWAYS_INLINE explicit Range(const Site& site) noexcept : site_(&site) {
    State* s = state();
    const uint32_t mask = load_relaxed(&s->mask);
    if (FASTPROF_UNLIKELY((mask & (site.mask | mask_bit::special)) != 0)) {
      const OpenRange open = begin_open(s, mask, &site, 0, nullptr, 0);
      slot_ = open.slot;
      begin_ = open.begin;
    }
  }
  // args: site.arg_count words.
  template <size_t Size>
  FASTPROF_ALWAYS_INLINE Range(const Site& site, const uint64_t (&args)[Size]) noexcept
      : site_(&site) {
    State* s = state();
    const uint32_t mask = load_relaxed(&s->mask);
    if (FASTPROF_UNLIKELY((mask & (site.mask | mask_bit::special)) != 0)) {
      const OpenRange open = begin_open(s, mask, &site, (Size + 2) / 3, args, Size);
      slot_ = open.slot;
      begin_ = open.begin;
    }
  }
  FASTPROF_ALWAYS_INLINE ~Range() {
    if (FASTPROF_UNLIKELY(slot_ != nullptr)) end_open(OpenRange{slot_, begin_}, site_);
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

  // Whether it was recorded (a callback's view of it counts).
  bool active() const noexcept { return slot_ != nullptr; }

 private:
  Slot* slot_ = nullptr;
  uint64_t begin_ = 0;
  const Site* site_;
};

// A begun range that may be ended on any thread. Trivially copyable; end it once.
struct RangeHandle {
  Slot* slot = nullptr;
  uint64_t begin = 0;
  const Site* site = nullptr;
  uint32_t track = 0;
  explicit operator bool() const noexcept { return slot != nullptr; }
};

// Begins a range without dispatching callbacks. site must be static or interned. Any thread.
FASTPROF_ALWAYS_INLINE RangeHandle begin_range(const Site& site,
                                               const uint64_t* args = nullptr) noexcept {
  State* s = state();
  const uint32_t mask = load_relaxed(&s->mask);
  if (FASTPROF_LIKELY((mask & (site.mask | mask_bit::special)) == 0)) return {};
  OpenRange open;
  if (FASTPROF_UNLIKELY((mask & kColdBits) != 0))
    open = begin_slow(s, &site, args);
  else
    open = begin_open(s, mask, &site, site.arg_units, args, args == nullptr ? 0 : site.arg_count);
  if (open.slot == nullptr) return {};
  return {open.slot, open.begin, &site, thread_block()->track->id};
}

// Ends it, on any thread: elsewhere than it began the end is a record of the ending thread.
FASTPROF_ALWAYS_INLINE void end_range(const RangeHandle& range) noexcept {
  if (range.slot == nullptr) return;
  const Track* track = thread_block()->track;
  if (FASTPROF_LIKELY(track != nullptr && track->id == range.track)) {
    end_open(OpenRange{range.slot, range.begin}, range.site);
    return;
  }
  const uint64_t begin = (range.begin >> 63) != 0 ? ~range.begin : range.begin;
  append_end(state(), RecordTag::foreign_end, range.site, begin, range.track);
}

// Async work in progress. Trivially copyable, may cross threads; end it once.
struct AsyncHandle {
  uint64_t begin = 0;
  const Site* site = nullptr;
  uint32_t track = 0;
  explicit operator bool() const noexcept { return site != nullptr; }
};

// site.kind must be async_range. The begin record is never written again, so it holds no memory
// back.
FASTPROF_ALWAYS_INLINE AsyncHandle begin_async(const Site& site) noexcept {
  State* s = state();
  const uint32_t mask = load_relaxed(&s->mask);
  if (FASTPROF_LIKELY((mask & (site.mask | mask_bit::special)) == 0)) return {};
  OpenRange open;
  if (FASTPROF_UNLIKELY((mask & kColdBits) != 0))
    open = begin_slow(s, &site, nullptr);
  else
    open = begin_open(s, mask, &site, 0, nullptr, 0);
  if (open.slot == nullptr) return {};
  return {(open.begin >> 63) != 0 ? ~open.begin : open.begin, &site, thread_block()->track->id};
}

FASTPROF_ALWAYS_INLINE void end_async(const AsyncHandle& async) noexcept {
  if (async.site != nullptr)
    append_end(state(), RecordTag::async_end, async.site, async.begin, async.track);
}

FASTPROF_NAMESPACE_END
