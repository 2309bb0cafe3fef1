// SPDX-License-Identifier: Apache-2.0
// Reclaiming session names: between sessions, frees all that no open range needs.
//
// Who may hold a session name, and what protects it:
//   a thread between lookup and record   NameUse: Track::names_in_use stops the reclaim
//   a cache (Python objects and names)   State::name_epoch, compared under a NameUse
//   records in chunks                    rewritten here: open ranges to copies, others to a
//   stand-in a begun range, which may end later   names_reclaimed_ticks: append_end() uses no site
//   of a range
//                                        that began before
//   RecordFunctions that callbacks see   own a copy of the name
//   captures, spill files                own copies
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/intern.hpp"
#include "fastprof/recorder/kept_site.hpp"
#include "fastprof/recorder/membarrier.hpp"
#include "fastprof/recorder/track.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace reclaiming {

struct Store {
  const NameStore* names;
  bool holds(const void* p) const noexcept { return holds_name(*names, p); }
};

// Whether a thread uses session names at this moment, or has a record reserved and not written: the
// records behind it could not be found then.
inline bool names_in_use(State* s) noexcept {
  for (Track* track = s->tracks; track != nullptr; track = track->next) {
    if (track->alive != 0 && load_acquire(&track->names_in_use) != 0) return true;
    for (Chunk* chunk = track->oldest; chunk != nullptr; chunk = chunk->next) {
      const Slot* last = chunk_written_end(track, chunk);
      for (const Slot* slot = chunk_slots(chunk); slot < last; slot += record_units(slot))
        if (load_acquire(&slot->begin) < chunk->open_ticks) return true;
    }
  }
  return false;
}

inline const char* move_text(State* s, const Store& gone, const char* text) noexcept {
  return keep_text(s, s->session_names, gone, text);
}

// The site of an open range in the new store; null when memory is short.
inline const Site* move_site(State* s, const Store& gone, const Site* from) noexcept {
  const auto* entry = reinterpret_cast<const InternEntry*>(from);
  if (entry->like == forgotten_site()) return keep_site(s, s->session_names, gone, *from);
  const InternEntry* moved = intern_locked(s, s->session_names, entry->like, entry->text(),
                                           entry->length, NameBound::ignored);
  return moved != nullptr ? &moved->site : nullptr;
}

// Interned texts behind an open range.
inline void move_texts(State* s, const Store& gone, Slot* slot, const Site* site,
                       RecordTag tag) noexcept {
  auto* words = reinterpret_cast<uint64_t*>(slot + 1);
  const auto move_word = [&](uint64_t* word) {
    const auto* text = reinterpret_cast<const char*>(static_cast<uintptr_t>(load_relaxed(word)));
    store_relaxed(word,
                  static_cast<uint64_t>(reinterpret_cast<uintptr_t>(move_text(s, gone, text))));
  };
  for (unsigned i = 0; i < site->arg_count; ++i)
    if (site->arg_types[i] == ArgType::string) move_word(&words[i]);
  if (tag != RecordTag::detailed) return;
  words += site->arg_units * 3u;
  const uint64_t* const end = words + 1 + static_cast<uint32_t>(load_relaxed(words));
  for (++words; words < end;) {
    const uint64_t block = load_relaxed(words++);
    const size_t size = block >> 16 & 0xFFFF;
    const auto type = static_cast<DetailType>(block & 0xFFFF);
    if (type == DetailType{} || size > static_cast<size_t>(end - words)) break;  // padding
    if ((type == DetailType::json || type == DetailType::modules) && size != 0) move_word(words);
    words += size;
  }
}

// No session will read what is over: its site and texts are replaced by what never goes.
inline void clear_record(Slot* slot, const Site* site, RecordTag tag) noexcept {
  if (tag == RecordTag::slot || tag == RecordTag::detailed) {
    auto* words = reinterpret_cast<uint64_t*>(slot + 1);
    for (unsigned i = 0; i < site->arg_count && site->arg_units != 0; ++i)
      if (site->arg_types[i] == ArgType::string) store_relaxed(&words[i], uint64_t{0});
  }
  if ((site->flags & site_flag::reclaimable) != 0)
    store_relaxed(&slot->site, site_word(&unread_site(site->arg_units), tag));
}

inline void rewrite_chunk(State* s, const Store& gone, Chunk* chunk, const Slot* last) noexcept {
  for (Slot* slot = chunk_slots(chunk); slot < last;) {
    const uint64_t begin = load_acquire(&slot->begin);
    if (begin < chunk->open_ticks) return;  // begun since names_in_use(): no session name in it
    const uint32_t units = record_units(slot);
    const uintptr_t word = load_relaxed(&slot->site);
    const RecordTag tag = tag_of(word);
    const Site* site = site_of(word);
    const bool range =
        site->kind == SiteKind::range && (tag == RecordTag::slot || tag == RecordTag::detailed);
    if (range && load_acquire(&slot->end) < begin) {
      move_texts(s, gone, slot, site, tag);
      if ((site->flags & site_flag::reclaimable) != 0) {
        const Site* moved = move_site(s, gone, site);
        store_relaxed(&slot->site,
                      site_word(moved != nullptr ? moved : &unread_site(site->arg_units), tag));
      }
    } else {
      clear_record(slot, site, tag);
    }
    slot += units;
  }
}

}  // namespace reclaiming

// Whether no session runs or is being read.
inline bool no_session(const State* s) noexcept {
  for (const SessionSlot& slot : s->sessions)
    if (load_relaxed(&slot.id) != 0) return false;
  return true;
}

// Frees the session names that no open range needs. False when a thread uses one at this moment:
// all stay until the next try. No session may run or be read. State::drain_lock and State::lock
// held. 1 ms for 10^5 names.
inline bool reclaim_names(State* s) noexcept {
  NameStore old = s->session_names;
  if (old.table == nullptr) return true;
  // Who begins to use names from here on finds none and waits for the lock; who ends an older range
  // does without its site.
  store_relaxed(&s->names_reclaimed_ticks, ordered_ticks(s));
  store_relaxed(&s->name_epoch, s->name_epoch + 1);
  store_release(&s->session_names.table, static_cast<InternTable*>(nullptr));
  process_barrier(s);
  if (reclaiming::names_in_use(s)) {
    store_release(&s->session_names.table, old.table);
    return false;
  }
  s->session_names.listed = nullptr;
  s->session_names.bytes = 0;
  s->session_names.blocks = nullptr;
  s->session_names.next = s->session_names.end = nullptr;
  const reclaiming::Store gone{&old};
  for (Track* track = s->tracks; track != nullptr; track = track->next)
    for (Chunk* chunk = track->oldest; chunk != nullptr; chunk = chunk->next)
      reclaiming::rewrite_chunk(s, gone, chunk, chunk_written_end(track, chunk));
  free_names(old);
  ++s->unload_epoch;  // caches by address are stale
  return true;
}

// Names worth keeping for the next session, so that those of a program that repeats its names are
// found again.
constexpr uint64_t kWarmNameBytes = 4u << 20;

// Between sessions, when more than that has come together. Locks as reclaim_names.
inline void reclaim_many_names(State* s) noexcept {
  const uint64_t share = s->max_name_bytes / 4;
  if (s->session_names.bytes < (share < kWarmNameBytes ? share : kWarmNameBytes)) return;
  if (no_session(s)) reclaim_names(s);
}

FASTPROF_NAMESPACE_END
