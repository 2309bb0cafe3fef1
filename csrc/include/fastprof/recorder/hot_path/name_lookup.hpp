// SPDX-License-Identifier: Apache-2.0
// Lookup in the intern table, which maps (prototype site, text) to a Site and strings to copies.
// Lock-free; insertion (name_table.hpp) takes State::lock.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// One interned name. The site is the first member, so a Site* of an entry is the entry's address.
// The text follows the entry, terminated by a zero byte.
struct InternEntry {
  Site site;         // name == text; unused for plain strings
  const Site* like;  // prototype, part of the key (relaxed atomic); null for plain strings;
                     // forgotten_site() once the library of the prototype is unloaded
  uint64_t hash;
  size_t length;
  InternEntry* next;  // NameStore::listed

  char* text() noexcept { return reinterpret_cast<char*>(this + 1); }
  const char* text() const noexcept { return reinterpret_cast<const char*>(this + 1); }
};

// Hash table with open addressing and linear probing, at most half full. It grows by publishing a
// larger copy; the old one stays readable until its store is freed.
struct InternTable {
  uint64_t capacity;  // a power of two
  uint64_t count;
  InternEntry* slots[1];  // [capacity], each published with release; partner: acquire in
                          // find_interned
};

// 64-bit hash of text and prototype. The prototype's content is hashed, not its address: an entry
// keeps its place when its library is unloaded and loaded again (intern_locked).
FASTPROF_ALWAYS_INLINE uint64_t hash_name(const Site* like, const char* text,
                                          size_t length) noexcept {
  constexpr uint64_t kFirst = 0xA0761D6478BD642Fu;
  constexpr uint64_t kSecond = 0xE7037ED1A0B428DBu;
  const auto mix = [](uint64_t a, uint64_t b) noexcept {
    const auto product = static_cast<fastprof_uint128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  const auto word = [](const char* at) noexcept {
    uint64_t value;
    __builtin_memcpy(&value, at, 8);
    return value;
  };
  uint64_t seed = kSecond ^ length;
  if (like != nullptr) seed ^= uint64_t{like->line} << 32 | like->mask;
  // Overlapping loads: no byte loop and no call for a short text.
  uint64_t a = 0, b = 0;
  if (FASTPROF_LIKELY(length >= 8)) {
    const char* last = text + length - 8;
    for (; length > 16; text += 16, length -= 16)
      seed = mix(word(text) ^ kFirst, word(text + 8) ^ seed);
    a = length >= 8 ? word(text) : 0;
    b = word(last);
  } else if (length >= 4) {
    uint32_t low, high;
    __builtin_memcpy(&low, text, 4);
    __builtin_memcpy(&high, text + length - 4, 4);
    a = low;
    b = high;
  } else if (length != 0) {
    const auto byte = [text](size_t at) noexcept {
      return uint64_t{static_cast<unsigned char>(text[at])};
    };
    a = byte(0) | byte(length / 2) << 8 | byte(length - 1) << 16;
  }
  return mix(a ^ kFirst, b ^ seed);
}

// Whether two texts of the same length are equal. Inline for 8 to 32 bytes, else memcmp.
FASTPROF_ALWAYS_INLINE bool same_bytes(const char* a, const char* b, size_t length) noexcept {
  const auto differs = [a, b](size_t at) noexcept {
    uint64_t left, right;
    __builtin_memcpy(&left, a + at, 8);
    __builtin_memcpy(&right, b + at, 8);
    return left ^ right;
  };
  if (FASTPROF_LIKELY(length - 8 <= 24)) {
    const size_t last = length - 8;
    return (differs(0) | differs(last < 8 ? last : 8) | differs(last < 16 ? last : 16) |
            differs(last)) == 0;
  }
  return length == 0 || __builtin_memcmp(a, b, length) == 0;  // an empty text may be null
}

// The entry of (like, text), or null. Any thread, no lock. The store must not be freed meanwhile:
// hold a NameUse for session names.
FASTPROF_ALWAYS_INLINE const InternEntry* find_interned(const NameStore& store, const Site* like,
                                                        const char* text, size_t length,
                                                        uint64_t hash) noexcept {
  const InternTable* table = load_acquire(&store.table);
  if (FASTPROF_UNLIKELY(table == nullptr)) return nullptr;
  for (uint64_t i = hash;; ++i) {
    const InternEntry* entry = load_acquire(&table->slots[i & (table->capacity - 1)]);
    if (FASTPROF_UNLIKELY(entry == nullptr)) return nullptr;
    if (FASTPROF_LIKELY(entry->hash == hash && load_relaxed(&entry->like) == like &&
                        entry->length == length && same_bytes(entry->text(), text, length)))
      return entry;
  }
}

FASTPROF_NAMESPACE_END
