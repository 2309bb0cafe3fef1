// SPDX-License-Identifier: Apache-2.0
// Names made at run time: each is copied once and then referred to by address, like a static Site.
//
// Two stores hold them. Lasting names (intern_site, intern_string) live as long as the process.
// Session names (session_site, session_string) live until no session and no open record needs them:
// reclaim_names.hpp frees them between sessions. Whoever looks one up holds a NameUse from the
// lookup until the record is written. A name kept longer than that is valid only while
// State::name_epoch is what it was at the lookup, compared under a NameUse.
#pragma once

#include <cstdio>
#include <cstring>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/drops.hpp"
#include "fastprof/recorder/lock.hpp"
#include "fastprof/recorder/name_table.hpp"
#include "fastprof/recorder/name_use.hpp"
#include "fastprof/recorder/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN

// The entry of a text that is too long: its beginning and a mark with its length. State::lock held.
inline InternEntry* intern_cut(State* s, const Site* like, const char* text,
                               size_t length) noexcept {
  size_t kept = s->max_name_length;
  while (kept != 0 && (static_cast<unsigned char>(text[kept]) & 0xC0) == 0x80) --kept;  // UTF-8
  char mark[64];
  const int mark_length = std::snprintf(mark, sizeof mark, "... [cut: %zu bytes]", length);
  const size_t total = kept + static_cast<size_t>(mark_length);
  // Built where it stays; taken back when it is there already.
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

inline void count_name(State* s, uint32_t mask) noexcept {
  count_dropped(s, thread_block()->track, mask, ticks(s), DropCause::names);
}

// Leader functions, see RecorderFunctions.
// A thread that is inside the recorder already (an annotated malloc under State::lock, a signal
// handler that interrupted its holder) must not wait for the lock it may hold: it gets the shared
// name, counted as such.
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

// The interned site named `name` and otherwise like `like` (which must be static). Lives as long as
// the process, so only for names of which there are few. Any thread; about 10 ns when known.
inline const Site* intern_site(const Site& like, std::string_view name) noexcept {
  State* s = state();
  const uint64_t hash = hash_name(&like, name.data(), name.size());
  if (const InternEntry* found =
          find_interned(s->lasting_names, &like, name.data(), name.size(), hash))
    return &found->site;
  if (s->functions == nullptr) return &like;
  return s->functions->intern_site(s, &like, name.data(), name.size());
}

// A copy of `text` that lives as long as the process. Any thread.
inline const char* intern_string(std::string_view text) noexcept {
  State* s = state();
  const uint64_t hash = hash_name(nullptr, text.data(), text.size());
  if (const InternEntry* found =
          find_interned(s->lasting_names, nullptr, text.data(), text.size(), hash))
    return found->text();
  if (s->functions == nullptr) return "";
  return s->functions->intern_string(s, text.data(), text.size());
}

// The site named `name` and otherwise like `like` (which must be static), for one record: begins
// `use`, which must live until the record is written. A name that is longer than
// State::max_name_length is cut; `like` itself when the bound is reached. Both are counted as
// DropCause::names. Any thread; about 5 ns when known.
FASTPROF_ALWAYS_INLINE const Site* session_site(NameUse& use, const Site& like,
                                                std::string_view name) noexcept {
  State* s = state();
  if (FASTPROF_UNLIKELY(!use.begin(s))) return &like;
  if (FASTPROF_LIKELY(name.size() <= load_relaxed(&s->max_name_length))) {
    const uint64_t hash = hash_name(&like, name.data(), name.size());
    if (const InternEntry* found =
            find_interned(s->session_names, &like, name.data(), name.size(), hash))
      return &found->site;
  }
  return s->functions->session_site(s, &like, name.data(), name.size());
}

// A copy of `text` for an argument of one record, likewise.
FASTPROF_ALWAYS_INLINE const char* session_string(NameUse& use, std::string_view text) noexcept {
  State* s = state();
  if (FASTPROF_UNLIKELY(!use.begin(s))) return "<reentrant string>";
  if (FASTPROF_LIKELY(text.size() <= load_relaxed(&s->max_name_length))) {
    const uint64_t hash = hash_name(nullptr, text.data(), text.size());
    if (const InternEntry* found =
            find_interned(s->session_names, nullptr, text.data(), text.size(), hash))
      return found->text();
  }
  return s->functions->session_string(s, text.data(), text.size());
}

FASTPROF_NAMESPACE_END
