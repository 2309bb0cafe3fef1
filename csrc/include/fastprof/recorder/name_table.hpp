// SPDX-License-Identifier: Apache-2.0
// Name table: maps (prototype site, text) to a Site, and texts to copies of them. Lookups take no
// lock; insertion takes State::lock.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/arena.hpp"
#include "fastprof/recorder/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// The site is first, so a Site* of an entry is the entry. The text follows, terminated by a zero
// byte.
struct InternEntry {
  Site site;         // name == text; unused for plain strings
  const Site* like;  // part of the key (relaxed atomic); null for plain strings; forgotten_site()
                     // once the library of the prototype is unloaded
  uint64_t hash;
  size_t length;
  InternEntry* next;  // NameStore::listed

  char* text() noexcept { return reinterpret_cast<char*>(this + 1); }
  const char* text() const noexcept { return reinterpret_cast<const char*>(this + 1); }
};

// Open addressing, linear probing, at most half full. Grown by publishing a larger copy; the old
// one stays readable until its store is freed.
struct InternTable {
  uint64_t capacity;  // a power of two
  uint64_t count;
  InternEntry* slots[1];  // [capacity], each published with release; partner: acquire in
                          // find_interned
};

// Memory of a store that can be freed, from mmap. Header of a block.
struct NameBlock {
  NameBlock* next;
  size_t size_bytes;
};

constexpr uint64_t kLastingNameBytes = 64u << 20;
constexpr size_t kNameBlockBytes = 1u << 20;

// Stands for the prototype of an entry whose library is gone. Never dereferenced.
inline const Site* forgotten_site() noexcept {
  return reinterpret_cast<const Site*>(uintptr_t{16});
}

// 64-bit mix of text and prototype. The prototype counts by content, not by address: an entry keeps
// its place in the table when its library is unloaded and loaded again (adopt_forgotten).
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
    std::memcpy(&value, at, 8);
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
    std::memcpy(&low, text, 4);
    std::memcpy(&high, text + length - 4, 4);
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

// Whether two texts of one length are equal. Inline for up to 32 bytes.
FASTPROF_ALWAYS_INLINE bool same_bytes(const char* a, const char* b, size_t length) noexcept {
  const auto differs = [a, b](size_t at) noexcept {
    uint64_t left, right;
    std::memcpy(&left, a + at, 8);
    std::memcpy(&right, b + at, 8);
    return left ^ right;
  };
  if (FASTPROF_LIKELY(length - 8 <= 24)) {
    const size_t last = length - 8;
    return (differs(0) | differs(last < 8 ? last : 8) | differs(last < 16 ? last : 16) |
            differs(last)) == 0;
  }
  return std::memcmp(a, b, length) == 0;
}

// The entry of (like, text), or null. Any thread, no lock; the store must not be freed meanwhile
// (NameUse).
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

// ---- Changing a store. State::lock held. ----

// Zeroed memory for names, 16-aligned; null when the kernel has none. That of the lasting store
// comes from the arena and is never freed.
inline void* allocate_names(State* s, NameStore& store, size_t bytes) noexcept {
  if (&store == &s->lasting_names) return arena_allocate(s, bytes);
  bytes = (bytes + 15) & ~size_t{15};
  if (store.next == nullptr || static_cast<size_t>(store.end - store.next) < bytes) {
    const size_t header = (sizeof(NameBlock) + 15) & ~size_t{15};
    const bool own = bytes > kNameBlockBytes / 4;
    const size_t size = own ? bytes + header : kNameBlockBytes;
    void* memory =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    auto* block = static_cast<NameBlock*>(memory);
    *block = {store.blocks, size};
    store.blocks = block;
    char* first = static_cast<char*>(memory) + header;
    if (own) return first;
    store.next = first;
    store.end = static_cast<char*>(memory) + size;
  }
  void* result = store.next;
  store.next += bytes;
  return result;
}

inline void free_names(NameStore& store) noexcept {
  for (NameBlock* block = store.blocks; block != nullptr;) {
    NameBlock* next = block->next;
    ::munmap(block, block->size_bytes);
    block = next;
  }
  store = NameStore{};
}

inline bool holds_name(const NameStore& store, const void* address) noexcept {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const NameBlock* block = store.blocks; block != nullptr; block = block->next) {
    const auto first = reinterpret_cast<uintptr_t>(block);
    if (at >= first && at < first + block->size_bytes) return true;
  }
  return false;
}

// Whether the bound of the store applies: not to copies of what records refer to, whose number the
// bound of the records limits.
enum class NameBound : bool { applies, ignored };

inline bool grow_table(State* s, NameStore& store) noexcept {
  const InternTable* table = store.table;
  if (table != nullptr && table->count * 2 < table->capacity) return true;
  const uint64_t capacity = table == nullptr ? 1024 : table->capacity * 4;
  auto* grown = static_cast<InternTable*>(
      allocate_names(s, store, sizeof(InternTable) + (capacity - 1) * sizeof(InternEntry*)));
  if (grown == nullptr) return false;
  grown->capacity = capacity;
  if (table != nullptr) {
    grown->count = table->count;
    for (uint64_t k = 0; k < table->capacity; ++k) {
      InternEntry* entry = table->slots[k];
      if (entry == nullptr) continue;
      uint64_t i = entry->hash;
      while (grown->slots[i & (capacity - 1)] != nullptr) ++i;
      grown->slots[i & (capacity - 1)] = entry;
    }
  }
  store_release(&store.table, grown);
  return true;
}

// A new entry, not in the table yet; null when the bound is reached or memory is short.
inline InternEntry* new_entry(State* s, NameStore& store, const char* text, size_t length,
                              NameBound bound) noexcept {
  const size_t bytes = sizeof(InternEntry) + length + 1;
  const uint64_t most = &store == &s->lasting_names ? kLastingNameBytes : s->max_name_bytes;
  if (bound == NameBound::applies && store.bytes + bytes > most) return nullptr;
  if (!grow_table(s, store)) return nullptr;
  auto* entry = static_cast<InternEntry*>(allocate_names(s, store, bytes));
  if (entry == nullptr) return nullptr;
  store.bytes += bytes;
  std::memcpy(entry->text(), text, length);
  entry->length = length;
  return entry;
}

// Publishes an entry whose site and `like` are filled.
inline void insert_entry(State* s, NameStore& store, InternEntry* entry, uint64_t hash) noexcept {
  entry->site.name = entry->text();
  entry->site.flags = &store == &s->lasting_names ? 0 : site_flag::reclaimable;
  entry->hash = hash;
  if (entry->like != nullptr && entry->like != forgotten_site()) {
    entry->next = store.listed;
    store.listed = entry;
  }
  InternTable* table = store.table;
  uint64_t i = hash;
  while (table->slots[i & (table->capacity - 1)] != nullptr) ++i;
  store_release(&table->slots[i & (table->capacity - 1)], entry);
  ++table->count;
}

inline bool same_text(const char* a, const char* b) noexcept {
  return a == b || (a != nullptr && b != nullptr && std::strcmp(a, b) == 0);
}

// Whether two sites say the same but for the name.
inline bool same_content(const Site& a, const Site& b) noexcept {
  if (a.mask != b.mask || a.kind != b.kind || a.scope != b.scope || a.arg_count != b.arg_count ||
      a.arg_units != b.arg_units || a.line != b.line || a.color != b.color ||
      a.device_type != b.device_type || a.device_index != b.device_index ||
      !same_text(a.category_name, b.category_name) || !same_text(a.file, b.file) ||
      !same_text(a.function, b.function))
    return false;
  for (unsigned i = 0; i < a.arg_count; ++i)
    if (a.arg_types[i] != b.arg_types[i] || !same_text(a.arg_names[i], b.arg_names[i]))
      return false;
  return true;
}

// The entry of `text` whose library is gone and that says what `like` says, or null.
inline InternEntry* find_forgotten(const NameStore& store, const Site& like, const char* text,
                                   size_t length, uint64_t hash) noexcept {
  const InternTable* table = store.table;
  if (table == nullptr) return nullptr;
  for (uint64_t i = hash;; ++i) {
    InternEntry* entry = table->slots[i & (table->capacity - 1)];
    if (entry == nullptr) return nullptr;
    if (entry->hash == hash && entry->like == forgotten_site() && entry->length == length &&
        same_bytes(entry->text(), text, length) && same_content(entry->site, like))
      return entry;
  }
}

// Finds or inserts. Null when the bound is reached or memory is short.
inline InternEntry* intern_locked(State* s, NameStore& store, const Site* like, const char* text,
                                  size_t length, NameBound bound = NameBound::applies) noexcept {
  const uint64_t hash = hash_name(like, text, length);
  if (const InternEntry* found = find_interned(store, like, text, length, hash))
    return const_cast<InternEntry*>(found);
  if (like != nullptr) {
    // The library was unloaded and is loaded again: what its records refer to serves again.
    if (InternEntry* adopted = find_forgotten(store, *like, text, length, hash)) {
      store_relaxed(&adopted->like, like);
      adopted->next = store.listed;
      store.listed = adopted;
      return adopted;
    }
  }
  InternEntry* entry = new_entry(s, store, text, length, bound);
  if (entry == nullptr) return nullptr;
  if (like != nullptr) entry->site = *like;
  entry->like = like;
  insert_entry(s, store, entry, hash);
  return entry;
}

FASTPROF_NAMESPACE_END
