// SPDX-License-Identifier: Apache-2.0
// Writing records: all macros end up here. Any thread, noexcept, no allocation; lock-free except
// for a chunk refill every 2700 records.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/name_use.hpp"
#include "fastprof/recorder/process/join.hpp"
#include "fastprof/recorder/process/masks.hpp"
#include "fastprof/recorder/state/make_site.hpp"
#include "fastprof/recorder/state/own_state.hpp"
#include "fastprof/recorder/state/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN

// Any of these mask bits diverts a range to the slow path. `local` does not: it only adds a test of
// the thread's mask.
constexpr uint32_t kColdBits = mask_bit::dynamic | mask_bit::callbacks | mask_bit::detail;

// The slot of a range that callbacks handle. A begin stamp never equals its begin.
inline constexpr Slot callback_marker{0, 0, 0};

// A begun range. `begin` is inverted (top bit set) if its end must take the slow path.
struct OpenRange {
  Slot* slot = nullptr;
  uint64_t begin = 0;
};

// Reserves everything before `next`. Release: a thread that sees the cursor behind a slot sees the
// slot blank or written (partner: chunk_written_end).
FASTPROF_ALWAYS_INLINE void move_cursor(ThreadBlock* block, uintptr_t next) noexcept {
  blank_slot(reinterpret_cast<Slot*>(next));
  store_release(&block->cursor, next);
}

// Reserves `units` contiguous units in the current chunk; null if they do not fit.
FASTPROF_ALWAYS_INLINE Slot* reserve_here(ThreadBlock* block, uint32_t units) noexcept {
  const uintptr_t cursor = block->cursor;
  const uintptr_t next = cursor + units * sizeof(Slot);
  // One unsigned compare tests that next <= limit and that the cursor lies in the chunk that ends
  // at the limit. The latter fails if, in an earlier reservation, a signal handler ran between our
  // load and store of the cursor and took a new chunk: the cursor then points into the old chunk,
  // and writing from there to the new limit would overwrite what lies between.
  if (FASTPROF_UNLIKELY(load_relaxed(&block->limit) - next >
                        kChunkCapacity * sizeof(Slot) - units * sizeof(Slot)))
    return nullptr;
  move_cursor(block, next);
  if (cursor == 0)
    __builtin_unreachable();  // the compare excludes 0, so callers' null checks cost nothing
  return reinterpret_cast<Slot*>(cursor);
}

// Shrinks a record whose length was unknown when `reserved` units were reserved to the `used` units
// it needs. Returns false if a signal handler has reserved behind it meanwhile: the record then
// keeps all of them.
FASTPROF_ALWAYS_INLINE bool give_units_back(ThreadBlock* block, Slot* slot, uint32_t reserved,
                                            uint32_t used) noexcept {
  if (FASTPROF_UNLIKELY(load_relaxed(&block->cursor) !=
                        reinterpret_cast<uintptr_t>(slot + reserved)))
    return false;
  move_cursor(block, reinterpret_cast<uintptr_t>(slot + used));
  return true;
}

// Like reserve_here, in a new chunk if need be; null: counted as dropped.
FASTPROF_ALWAYS_INLINE Slot* reserve(State* s, ThreadBlock* block, uint32_t units,
                                     uint32_t mask) noexcept {
  Slot* slot = reserve_here(block, units);
  if (FASTPROF_UNLIKELY(slot == nullptr)) slot = s->functions->reserve_slow(s, block, units, mask);
  return slot;
}

// Writes a reserved slot and stamps it; argument words must be written before. The compiler may not
// move the stamp before the reservation: a slot must be visibly reserved before its begin is taken,
// or a session stop could miss it.
FASTPROF_ALWAYS_INLINE uint64_t stamp_slot(Slot* slot, uint64_t end, uintptr_t site) noexcept {
  store_relaxed(&slot->end, end);
  store_relaxed(&slot->site, site);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  const uint64_t begin = raw_ticks();
  store_release(&slot->begin, begin);
  return begin;
}

// Like stamp_slot, with the process's clock. stamp_slot always reads the tick counter; under the
// slow clock its stamp would precede the chunk's open_ticks and invalidate the record.
inline uint64_t stamp_slot_any_clock(State* s, Slot* slot, uint64_t end, uintptr_t site) noexcept {
  if (s->slow_clock == 0) return stamp_slot(slot, end, site);
  store_relaxed(&slot->end, end);
  store_relaxed(&slot->site, site);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  const uint64_t begin = slow_ticks(s);
  store_release(&slot->begin, begin);
  return begin;
}

// The value of OpenRange::begin: inverted if the end must go to end_cold, because the clock is not
// the tick counter or the end has details to write.
inline uint64_t begin_to_keep(State* s, uint64_t begin, bool has_end) noexcept {
  return s->slow_clock != 0 || has_end ? ~begin : begin;
}

// The begin stamp of a value that begin_to_keep() returned.
constexpr uint64_t begin_stamp(uint64_t kept) noexcept {
  return kept >> 63 != 0 ? ~kept : kept;
}

// Writes `count` argument words behind a reserved slot.
FASTPROF_ALWAYS_INLINE void write_args(Slot* slot, const uint64_t* args, uint32_t count) noexcept {
  auto* words = reinterpret_cast<uint64_t*>(slot + 1);
  for (uint32_t i = 0; i < count; ++i) store_relaxed(&words[i], args[i]);
}

// Whether this thread records `mask` now, from State::mask, its special bits and the thread's mask.
inline bool wanted(State* s, ThreadBlock* block, uint32_t mask) noexcept {
  const uint32_t real = effective_mask(s);
  if ((real & mask) != 0) return true;
  return (real & mask_bit::local) != 0 && (block->mask & mask) != 0;
}

constexpr uint32_t kDetailCapacity = 192;  // words of counters and stacks behind one slot, at most

// Begins a range without dispatching callbacks, in all cases that begin_fast does not handle. Null
// slot: not recorded. `caller`: the return address at which a native stack starts; null for this
// function's.
FASTPROF_COLD inline OpenRange begin_slow(State* s, const Site* site, const uint64_t* args,
                                          const void* caller = nullptr) noexcept {
  ThreadBlock* block = thread_block();
  if (!wanted(s, block, site->mask)) return {};
  uint64_t detail[kDetailCapacity];
  size_t words = 0;
  if ((effective_mask(s) & mask_bit::detail) != 0 && site->kind == SiteKind::range &&
      s->functions->detail_begin != nullptr)
    words = s->functions->detail_begin(s, block, detail, kDetailCapacity,
                                       caller != nullptr ? caller : __builtin_return_address(0));
  const auto detail_units = static_cast<uint32_t>(words / 3);
  Slot* slot = reserve(s, block, 1u + site->arg_units + detail_units, site->mask);
  if (slot == nullptr) return {};
  write_args(slot, args, args == nullptr ? 0 : site->arg_count);
  RecordTag tag = RecordTag::slot;
  if (words != 0) {
    tag = RecordTag::detailed;
    auto* at = reinterpret_cast<uint64_t*>(slot + 1 + site->arg_units);
    for (size_t i = 0; i < words; ++i) store_relaxed(&at[i], detail[i]);
  }
  const uint64_t begin = stamp_slot_any_clock(s, slot, 0, site_word(site, tag));
  return {slot, begin_to_keep(s, begin, words != 0)};
}

// Slow path of begin_fast: dispatches callbacks if any are registered, else calls begin_slow.
FASTPROF_COLD inline OpenRange begin_cold(State* s, const Site* site,
                                          const uint64_t* args) noexcept {
  if ((effective_mask(s) & mask_bit::callbacks) != 0) {
    if (void* token = s->functions->dispatch_begin(s, site, args))
      return {const_cast<Slot*>(&callback_marker), reinterpret_cast<uintptr_t>(token)};
  }
  return begin_slow(s, site, args, __builtin_return_address(0));
}

// Site for an appended end whose own site may have been reclaimed. Ends are joined by begin stamp.
inline constexpr Site ended_site =
    in_category(make_site(SiteKind::range, category::all, RecordScope::USER_SCOPE, "<ended>",
                          nullptr, nullptr, 0),
                "");

// Appends the end of a range whose slot this thread cannot write: recycled (late), begun on another
// thread (cross_thread_end), or async. The first word is a fresh stamp, so that the record is valid
// in its chunk; the origin's begin takes the place of the end. Discarded if nothing records any
// more.
inline void append_end(State* s, RecordTag tag, const Site* site, uint64_t begin,
                       uint32_t origin_track) noexcept {
  NameUse use;
  if (FASTPROF_UNLIKELY(!use.begin(s) || begin < load_relaxed(&s->names_reclaimed_ticks))) {
    // It began before every live session. Its end matters only if its begin record still exists: to
    // a session that lists ranges that were open at its start.
    if (tag != RecordTag::cross_thread_end) return;
    site = &ended_site;
  }
  ThreadBlock* block = thread_block();
  if (!wanted(s, block, site->mask)) return;
  uint64_t end = 0;
  Slot* slot = reserve_here(block, 2);
  if (FASTPROF_UNLIKELY(slot == nullptr)) {
    end = ordered_ticks(s);  // before the refill, so that it excludes the refill's time
    slot = s->functions->reserve_slow(s, block, 2, site->mask | kEndRecord);
  }
  if (slot == nullptr) return;
  if (origin_track == 0) origin_track = block->track->id;
  auto* words = reinterpret_cast<uint64_t*>(slot + 1);
  store_relaxed(&words[0], static_cast<uint64_t>(origin_track));
  store_relaxed(&words[1], static_cast<uint64_t>(block->track->id));
  store_relaxed(&slot->end, begin);
  store_relaxed(&slot->site, site_word(site, tag));
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  const uint64_t stamp = ordered_ticks(s);
  store_relaxed(&words[2], end == 0 ? stamp : end);
  store_release(&slot->begin, stamp);
}

// Ends a range whose end cannot simply be stored in its slot: callbacks handle it, it has details,
// the clock is not the tick counter, or the slot was recycled.
FASTPROF_COLD inline void end_cold(Slot* slot, uint64_t begin, const Site* site) noexcept {
  State* s = state();
  if (slot == &callback_marker) {
    s->functions->dispatch_end(s, reinterpret_cast<void*>(static_cast<uintptr_t>(begin)));
    return;
  }
  if ((begin >> 63) != 0) {
    begin = ~begin;
    const uint64_t end = ticks(s);
    if (load_relaxed(&slot->begin) == begin) {
      // After a reclaim, the record's site word refers to a copy of the session name.
      NameUse use;
      const bool valid = use.begin(s) && begin >= load_relaxed(&chunk_of(slot)->open_ticks);
      const uintptr_t word = load_relaxed(&slot->site);
      if (valid && tag_of(word) == RecordTag::detailed && s->functions->detail_end != nullptr)
        s->functions->detail_end(s, thread_block(),
                                 reinterpret_cast<uint64_t*>(slot + 1 + site_of(word)->arg_units));
      store_release(&slot->end, end);
      return;
    }
  }
  __atomic_fetch_add(&s->late_records, uint64_t{1}, __ATOMIC_RELAXED);
  append_end(s, RecordTag::late, site, begin, 0);
}

// Begins a range; the macros call it with a constant site. `mask`: State::mask. args:
// site->arg_count words, or null.
FASTPROF_ALWAYS_INLINE OpenRange begin_fast(State* s, uint32_t mask, const Site* site,
                                            uint32_t arg_units, const uint64_t* args,
                                            uint32_t arg_count) noexcept {
  if (FASTPROF_UNLIKELY((mask & kColdBits) != 0)) return begin_cold(s, site, args);
  ThreadBlock* block = static_thread_block();
  if (FASTPROF_UNLIKELY((mask & site->mask) == 0) && (block->mask & site->mask) == 0) return {};
  Slot* slot = reserve_here(block, 1 + arg_units);
  // begin_cold takes the new chunk too, which saves a call in every annotated function.
  if (FASTPROF_UNLIKELY(slot == nullptr)) return begin_cold(s, site, args);
  write_args(slot, args, arg_count);
  return {slot, stamp_slot(slot, 0, reinterpret_cast<uintptr_t>(site))};
}

// Ends a range on the thread that began it.
FASTPROF_ALWAYS_INLINE void end_open(const OpenRange& open, const Site* site) noexcept {
  const uint64_t end = raw_ticks();
  // A recycled slot contains another begin; the end is then appended as a separate record.
  if (FASTPROF_LIKELY(load_relaxed(&open.slot->begin) == open.begin))
    store_release(&open.slot->end, end);
  else
    end_cold(open.slot, open.begin, site);
}

// Records an instant (mark, counter, flow, memory). `value` is the slot's second word.
FASTPROF_COLD inline void record_instant_cold(State* s, const Site* site, uint64_t value,
                                              const uint64_t* args) noexcept {
  ThreadBlock* block = thread_block();
  if (!wanted(s, block, site->mask)) return;
  Slot* slot = reserve(s, block, 1u + site->arg_units, site->mask);
  if (slot == nullptr) return;
  write_args(slot, args, args == nullptr ? 0 : site->arg_units * 3u);
  stamp_slot_any_clock(s, slot, value, reinterpret_cast<uintptr_t>(site));
}

// Records an instant. args: site.arg_units * 3 words, or null. Flow ends are ordered after earlier
// loads (lfence), because their stamps are compared with other threads'. Any thread.
FASTPROF_ALWAYS_INLINE void record_instant(const Site& site, uint64_t value,
                                           const uint64_t* args = nullptr) noexcept {
  State* s = state();
  const uint32_t mask = load_relaxed(&s->mask);
  if (FASTPROF_LIKELY((mask & (site.mask | mask_bit::special)) == 0)) return;
  if (site.arg_units != 0 || (mask & (mask_bit::special)) != 0) {
    record_instant_cold(s, &site, value, args);
    return;
  }
  if (site.kind == SiteKind::flow_end) order_ticks();
  ThreadBlock* block = static_thread_block();
  Slot* slot = reserve(s, block, 1, site.mask);
  if (FASTPROF_UNLIKELY(slot == nullptr)) return;
  stamp_slot(slot, value, reinterpret_cast<uintptr_t>(&site));
}

FASTPROF_NAMESPACE_END
