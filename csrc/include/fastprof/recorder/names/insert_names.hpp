// SPDX-License-Identifier: Apache-2.0
// The leader's functions that insert names made at run time (intern.hpp).
#pragma once

#include <cstdio>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/names/name_table.hpp"
#include "fastprof/recorder/state/lock.hpp"
#include "fastprof/recorder/state/ticks.hpp"
#include "fastprof/recorder/store/drops.hpp"

FASTPROF_NAMESPACE_BEGIN

// Interns a text that is longer than State::max_name_length: its beginning and a mark with its
// length. State::lock held.
inline InternEntry* intern_cut(State* s, const Site* like, const char* text,
                               size_t length) noexcept {
  size_t kept = s->max_name_length;
  while (kept != 0 && (static_cast<unsigned char>(text[kept]) & 0xC0) == 0x80) --kept;  // UTF-8
  char mark[64];
  const int mark_length = std::snprintf(mark, sizeof mark, "... [cut: %zu bytes]", length);
  const size_t total = kept + static_cast<size_t>(mark_length);
  // Built in place in the store; released again if the table contains it already.
  NameStore& store = s->session_names;
  if (!grow_table(s, store)) return nullptr;
  const size_t bytes = sizeof(InternEntry) + total + 1;
  if (store.bytes + bytes > s->max_name_bytes) return nullptr;
  char* const next = store.next;
  auto* entry = static_cast<InternEntry*>(allocate_names(s, store, bytes));
  if (entry == nullptr) return nullptr;
  std::memcpy(entry->text(), text, kept);
  std::memcpy(entry->text() + kept, mark, static_cast<size_t>(mark_length) + 1);
  entry->length = total;
  const uint64_t hash = hash_name(like, entry->text(), total);
  const InternEntry* found = find_interned(store, like, entry->text(), total, hash);
  if (found == nullptr && like != nullptr)
    found = find_forgotten(store, *like, entry->text(), total, hash);
  if (found != nullptr) {
    if (reinterpret_cast<char*>(entry) == next) {
      std::memset(static_cast<void*>(entry), 0, bytes);  // memory for names is zeroed
      store.next = next;
    } else {
      store.bytes += bytes;  // in a new block, which stays
    }
    return const_cast<InternEntry*>(found);
  }
  store.bytes += bytes;
  if (like != nullptr) entry->site = *like;
  entry->like = like;
  insert_entry(s, store, entry, hash);
  return entry;
}

// Counts a shared or cut name as DropCause::names.
inline void count_name(State* s, uint32_t mask) noexcept {
  count_dropped(s, thread_block()->track, mask, ticks(s), DropCause::names);
}

// Leader functions, see RecorderFunctions. A thread that is already inside the recorder (an
// annotated malloc under State::lock, a signal handler that interrupted the holder) must not wait
// for the lock: it gets the prototype site or a fixed text, and the site's loss is counted.
inline const Site* leader_intern_site(State* s, const Site* like, const char* name,
                                      size_t length) noexcept {
  InternEntry* entry = nullptr;
  if ((thread_block()->flags & thread_flag::busy) == 0) {
    StateLock hold(s);
    entry = intern_locked(s, s->lasting_names, like, name, length);
  }
  if (entry != nullptr) return &entry->site;
  count_name(s, like->mask);
  return like;
}
inline const char* leader_intern_string(State* s, const char* text, size_t length) noexcept {
  if ((thread_block()->flags & thread_flag::busy) != 0) return "<reentrant string>";
  StateLock hold(s);
  const InternEntry* entry = intern_locked(s, s->lasting_names, nullptr, text, length);
  return entry != nullptr ? entry->text() : "<too many strings>";
}

// Interns a session name; sets *cut if it was too long. Null if the thread is busy, the bound is
// reached or memory is short.
inline InternEntry* intern_for_session(State* s, const Site* like, const char* text, size_t length,
                                       bool* cut) noexcept {
  if ((thread_block()->flags & thread_flag::busy) != 0) return nullptr;
  StateLock hold(s);
  *cut = length > s->max_name_length;
  return *cut ? intern_cut(s, like, text, length)
              : intern_locked(s, s->session_names, like, text, length);
}
inline const Site* leader_session_site(State* s, const Site* like, const char* name,
                                       size_t length) noexcept {
  bool cut = false;
  const InternEntry* entry = intern_for_session(s, like, name, length, &cut);
  if (entry == nullptr || cut) count_name(s, like->mask);
  return entry != nullptr ? &entry->site : like;
}
inline const char* leader_session_string(State* s, const char* text, size_t length) noexcept {
  bool cut = false;
  const InternEntry* entry = intern_for_session(s, nullptr, text, length, &cut);
  if (entry == nullptr || cut) count_name(s, category::all);
  return entry != nullptr ? entry->text() : "<too many strings>";
}

FASTPROF_NAMESPACE_END
