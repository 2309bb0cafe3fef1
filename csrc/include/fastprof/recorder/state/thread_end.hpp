// SPDX-License-Identifier: Apache-2.0
// Thread ends: records that attribute a part of a chunk to a thread that has ended. The next thread
// continues in the rest of the chunk, so that short threads do not use 64 KB each.
//
// The record stands behind the thread's last one: its records are those from the thread end before
// it, or from the start of the chunk. Records behind the last thread end belong to the chunk's
// track. Like a chunk, each part begins with the thread's session membership and current task.
#pragma once

#include <cstdint>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/make_site.hpp"
#include "fastprof/recorder/state/slot.hpp"
#include "fastprof/recorder/state/state.hpp"

FASTPROF_NAMESPACE_BEGIN

// The category of thread ends: a bit that no session records.
constexpr uint32_t kThreadEndMask = 1u << 24;
// Units behind the slot, at most: a word with thread id and length of the name, then the name.
constexpr uint32_t kThreadEndUnits = 3;

constexpr bool is_thread_end(const Site* site) noexcept {
  return site->kind == SiteKind::mark && site->mask == kThreadEndMask;
}

// The site of a thread end with `units` units, 1 to kThreadEndUnits.
inline const Site* thread_end_site(uint32_t units) noexcept {
  struct Sites {
    Site of[kThreadEndUnits];
  };
  static constexpr Sites sites = [] {
    Sites made{};
    for (uint8_t i = 0; i < kThreadEndUnits; ++i) {
      made.of[i] = in_category(make_site(SiteKind::mark, kThreadEndMask, RecordScope::USER_SCOPE,
                                         "thread end", "", "", 0),
                               "overhead");
      made.of[i].arg_units = static_cast<uint8_t>(i + 1);
    }
    return made;
  }();
  return &sites.of[units - 1];
}

// Units that the track's thread end needs behind its slot.
inline uint32_t thread_end_units(const Track* track) noexcept {
  const uint32_t words = 1 + (track->name_length + 7) / 8;
  return (words + 2) / 3;
}

// Writes the track's thread end into a reserved slot and `units` units. State::lock held.
inline void fill_thread_end(const Track* track, Slot* slot, uint32_t units,
                            uint64_t stamp) noexcept {
  auto* words = reinterpret_cast<uint64_t*>(slot + 1);
  store_relaxed(&words[0], uint64_t{track->name_length} << 32 | track->tid);
  for (uint32_t at = 0; at < track->name_length; at += 8) {
    uint64_t text;
    std::memcpy(&text, track->name + at, sizeof text);  // the array is a multiple of 8 bytes
    store_relaxed(&words[1 + at / 8], text);
  }
  store_relaxed(&slot->end, uint64_t{track->id});
  store_relaxed(&slot->site, reinterpret_cast<uintptr_t>(thread_end_site(units)));
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  store_release(&slot->begin, stamp);
}

// The first thread end of a chunk's records from `slot` on, nullptr if none is written.
// `open_ticks`: of the chunk; records before it are not written.
inline const Slot* find_thread_end(const Slot* slot, const Slot* last,
                                   uint64_t open_ticks) noexcept {
  for (; slot < last; slot += record_units(slot)) {
    if (load_acquire(&slot->begin) < open_ticks) return nullptr;  // fill_thread_end() stores it
    const uintptr_t word = load_relaxed(&slot->site);
    if (tag_of(word) == RecordTag::slot && is_thread_end(site_of(word))) return slot;
  }
  return nullptr;
}

// What a thread end says.
struct ThreadEnd {
  uint32_t track_id;
  uint32_t tid;
  uint32_t name_length;
  char name[kThreadEndUnits * sizeof(Unit)];
};

// Reads a thread end, which may come from a damaged file. `site`: its site.
inline ThreadEnd read_thread_end(const Slot* slot, const Site* site) noexcept {
  ThreadEnd end{};
  const uint32_t units = site->arg_units < kThreadEndUnits ? site->arg_units : kThreadEndUnits;
  if (units == 0) return end;
  const auto* words = reinterpret_cast<const uint64_t*>(slot + 1);
  const uint64_t first = load_relaxed(&words[0]);
  end.track_id = static_cast<uint32_t>(load_relaxed(&slot->end));
  end.tid = static_cast<uint32_t>(first);
  const uint32_t room = units * static_cast<uint32_t>(sizeof(Unit)) - 8;
  const auto length = static_cast<uint32_t>(first >> 32);
  end.name_length = length < room ? length : room;
  for (uint32_t at = 0; at < end.name_length; at += 8) {
    const uint64_t text = load_relaxed(&words[1 + at / 8]);
    std::memcpy(end.name + at, &text, sizeof text);
  }
  return end;
}

FASTPROF_NAMESPACE_END
