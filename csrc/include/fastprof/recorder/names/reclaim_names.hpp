// SPDX-License-Identifier: Apache-2.0
// Reclaiming session names: between sessions, frees those that no open range needs.
//
// Who may hold a session name, and what protects it:
//   thread between lookup and record   NameUse: Track::names_in_use stops the reclaim
//   cache (Python objects and names)   State::name_epoch, compared under a NameUse
//   records in chunks                  rewritten here: open ranges refer to copies afterwards, all
//                                      others to a placeholder
//   range that may end later           names_reclaimed_ticks: append_end() does not use the site of
//                                      a range that began before
//   RecordFunction seen by callbacks   owns a copy of the name
//   captures, spill files              own copies
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"
#include "fastprof/recorder/names/kept_site.hpp"
#include "fastprof/recorder/process/membarrier.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"
#include "fastprof/recorder/store/track.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace reclaiming {

// The store being reclaimed, in the form that keep_text() and keep_site() take.
struct Store {
  const NameStore* names;
  bool holds(const void* p) const noexcept { return holds_name(*names, p); }
};

// Whether a thread is using session names, or has reserved a record but not written it (the records
// behind it could not be found).
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

// The text, or its copy in the new store.
inline const char* move_text(State* s, const Store& gone, const char* text) noexcept {
  return keep_text(s, s->session_names, gone, text);
}

// The copy of an open range's site in the new store; null if memory is short.
inline const Site* move_site(State* s, const Store& gone, const Site* from) noexcept {
  const auto* entry = reinterpret_cast<const InternEntry*>(from);
  if (entry->like == forgotten_site()) return keep_site(s, s->session_names, gone, *from);
  const InternEntry* moved = intern_locked(s, s->session_names, entry->like, entry->text(),
                                           entry->length, NameBound::ignored);
  return moved != nullptr ? &moved->site : nullptr;
}

// Copies the interned texts in an open range's arguments and blocks to the new store.
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
  for_each_block(words + site->arg_units * 3u, SIZE_MAX,
                 [&](DetailBlock block, uint64_t* contents) {
                   if (is_text(block.type) && block.count != 0) move_word(contents);
                 });
}

// Removes the references of a finished record, which no session will read: its site becomes a
// placeholder, its string arguments null.
inline void clear_record(Slot* slot, const Site* site, RecordTag tag) noexcept {
  if (tag == RecordTag::slot || tag == RecordTag::detailed) {
    auto* words = reinterpret_cast<uint64_t*>(slot + 1);
    for (unsigned i = 0; i < site->arg_count && site->arg_units != 0; ++i)
      if (site->arg_types[i] == ArgType::string) store_relaxed(&words[i], uint64_t{0});
  }
  if ((site->flags & site_flag::reclaimable) != 0)
    store_relaxed(&slot->site, site_word(&unread_site(site->arg_units), tag));
}

// Rewrites all records of a chunk, so that none refers to the old store.
inline void rewrite_chunk(State* s, const Store& gone, Chunk* chunk, const Slot* last) noexcept {
  for (Slot* slot = chunk_slots(chunk); slot < last;) {
    const uint64_t begin = load_acquire(&slot->begin);
    if (begin < chunk->open_ticks) return;  // begun after names_in_use(): no session name in it
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
                      with_site(word, moved != nullptr ? moved : &unread_site(site->arg_units)));
      }
    } else {
      clear_record(slot, site, tag);
    }
    slot += units;
  }
}

}  // namespace reclaiming

// Returns whether no session is live or being read. State::lock held.
inline bool no_session(const State* s) noexcept {
  for (const SessionSlot& slot : s->sessions)
    if (load_relaxed(&slot.id) != 0) return false;
  return true;
}

// Frees the session names that no open range needs. Returns false, and frees nothing, if a thread
// is using one. No session may be live or being read. State::drain_lock and State::lock held. 1 ms
// for 10^5 names.
inline bool reclaim_names(State* s) noexcept {
  NameStore old = s->session_names;
  if (old.table == nullptr) return true;
  // From here on, a lookup finds no name and waits for the lock, and an end of an older range is
  // appended without its site.
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
  ++s->unload_epoch;  // invalidates caches by address
  return true;
}

// Session names up to this size are kept for the next session, so that a program that repeats its
// names finds them again.
constexpr uint64_t kWarmNameBytes = 4u << 20;

// Reclaims session names between sessions, if they exceed kWarmNameBytes or a quarter of the bound.
// Locks held as for reclaim_names.
inline void reclaim_many_names(State* s) noexcept {
  const uint64_t share = s->max_name_bytes / 4;
  if (s->session_names.bytes < (share < kWarmNameBytes ? share : kWarmNameBytes)) return;
  if (no_session(s)) reclaim_names(s);
}

FASTPROF_NAMESPACE_END
