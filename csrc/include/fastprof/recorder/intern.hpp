// SPDX-License-Identifier: Apache-2.0
// Names made at run time: each is copied once and then referred to by address, like a static Site.
// Reads take no lock.
#pragma once

#include <cstring>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/arena.hpp"
#include "fastprof/recorder/lock.hpp"
#include "fastprof/recorder/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// The site is first, so a Site* of an entry is the entry. text follows, terminated by a zero byte.
struct InternEntry {
  Site site;  // name == text; unused for plain strings
  const Site*
      like;  // part of the key; null for plain strings; kForgotten after its library was unloaded
  uint64_t hash;
  size_t length;
  InternEntry* next;  // all entries, newest first

  char* text() noexcept { return reinterpret_cast<char*>(this + 1); }
  const char* text() const noexcept { return reinterpret_cast<const char*>(this + 1); }
};

// Open addressing, linear probing, at most half full. Grown by publishing a larger copy; the old
// one stays readable.
struct InternTable {
  uint64_t capacity;  // a power of two
  uint64_t count;
  InternEntry* all;
  InternEntry*
      slots[1];  // [capacity], each published with release; partner: acquire in find_interned
};

constexpr uint64_t kMaxNames = 1u << 20;
constexpr uint64_t kMaxNameBytes = 64u << 20;
constexpr uintptr_t kForgotten = 16;

// 64-bit mix of text and key; any good hash does, it never leaves the process.
inline uint64_t hash_name(const Site* like, const char* text, size_t length) noexcept {
  uint64_t h =
      0x9E3779B97F4A7C15u ^ (reinterpret_cast<uintptr_t>(like) * 0xD6E8FEB86659FD93u) ^ length;
  auto mix = [&h](uint64_t word) noexcept {
    const auto product = static_cast<fastprof_uint128>(h ^ word) * 0xA0761D6478BD642Fu;
    h = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  uint64_t word = 0;
  while (length >= 8) {
    std::memcpy(&word, text, 8);
    mix(word);
    text += 8;
    length -= 8;
  }
  if (length != 0) {
    word = 0;
    std::memcpy(&word, text, length);
    mix(word);
  }
  mix(0x2545F4914F6CDD1Du);
  return h;
}

// The entry of (like, text), or null. Any thread, no lock.
inline const InternEntry* find_interned(const State* s, const Site* like, const char* text,
                                        size_t length, uint64_t hash) noexcept {
  const InternTable* table = load_acquire(&s->names);
  if (table == nullptr) return nullptr;
  for (uint64_t i = hash;; ++i) {
    const InternEntry* entry = load_acquire(&table->slots[i & (table->capacity - 1)]);
    if (entry == nullptr) return nullptr;
    if (entry->hash == hash && load_relaxed(&entry->like) == like && entry->length == length &&
        std::memcmp(entry->text(), text, length) == 0)
      return entry;
  }
}

// Inserts or finds. State::lock held. Null when the table or the memory bound is full.
inline InternEntry* intern_locked(State* s, const Site* like, const char* text,
                                  size_t length) noexcept {
  const uint64_t hash = hash_name(like, text, length);
  if (const InternEntry* found = find_interned(s, like, text, length, hash))
    return const_cast<InternEntry*>(found);
  InternTable* table = s->names;
  const size_t bytes = sizeof(InternEntry) + length + 1;
  if (table != nullptr && (table->count >= kMaxNames || s->name_bytes + bytes > kMaxNameBytes))
    return nullptr;
  if (table == nullptr || table->count * 2 >= table->capacity) {
    const uint64_t capacity = table == nullptr ? 1024 : table->capacity * 4;
    auto* grown = static_cast<InternTable*>(
        arena_allocate(s, sizeof(InternTable) + (capacity - 1) * sizeof(InternEntry*)));
    if (grown == nullptr) return nullptr;
    grown->capacity = capacity;
    if (table != nullptr) {
      grown->count = table->count;
      grown->all = table->all;
      for (InternEntry* entry = table->all; entry != nullptr; entry = entry->next) {
        uint64_t i = entry->hash;
        while (grown->slots[i & (capacity - 1)] != nullptr) ++i;
        grown->slots[i & (capacity - 1)] = entry;
      }
    }
    store_release(&s->names, grown);
    table = grown;
  }
  auto* entry = static_cast<InternEntry*>(arena_allocate(s, bytes));
  if (entry == nullptr) return nullptr;
  s->name_bytes += bytes;
  std::memcpy(entry->text(), text, length);
  if (like != nullptr) entry->site = *like;
  entry->site.name = entry->text();
  entry->like = like;
  entry->hash = hash;
  entry->length = length;
  entry->next = table->all;
  table->all = entry;
  uint64_t i = hash;
  while (table->slots[i & (table->capacity - 1)] != nullptr) ++i;
  store_release(&table->slots[i & (table->capacity - 1)], entry);
  ++table->count;
  return entry;
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
    entry = intern_locked(s, like, name, length);
  }
  if (entry != nullptr) return &entry->site;
  for (SessionSlot& slot : s->sessions)
    if (load_relaxed(&slot.live) != 0 && (slot.mask & like->mask) != 0)
      __atomic_fetch_add(&slot.dropped[static_cast<size_t>(DropCause::names)], uint64_t{1},
                         __ATOMIC_RELAXED);
  return like;
}
inline const char* leader_intern_string(State* s, const char* text, size_t length) noexcept {
  if ((thread_block()->flags & thread_flag::busy) != 0) return "<reentrant string>";
  StateLock hold(s);
  const InternEntry* entry = intern_locked(s, nullptr, text, length);
  return entry != nullptr ? entry->text() : "<too many strings>";
}

// The interned site named `name` and otherwise like `like` (which must be static). Any thread;
// about 10 ns when known.
inline const Site* intern_site(const Site& like, std::string_view name) noexcept {
  State* s = state();
  const uint64_t hash = hash_name(&like, name.data(), name.size());
  if (const InternEntry* found = find_interned(s, &like, name.data(), name.size(), hash))
    return &found->site;
  if (s->functions == nullptr) return &like;
  return s->functions->intern_site(s, &like, name.data(), name.size());
}

// A copy of `text` that lives as long as the process. Any thread.
inline const char* intern_string(std::string_view text) noexcept {
  State* s = state();
  const uint64_t hash = hash_name(nullptr, text.data(), text.size());
  if (const InternEntry* found = find_interned(s, nullptr, text.data(), text.size(), hash))
    return found->text();
  if (s->functions == nullptr) return "";
  return s->functions->intern_string(s, text.data(), text.size());
}

FASTPROF_NAMESPACE_END
