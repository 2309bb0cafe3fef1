// SPDX-License-Identifier: Apache-2.0
// Writing the intern table: insertion, growth, memory. All under State::lock, while lookups
// (name_lookup.hpp) continue.
#pragma once

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/memory.hpp"
#include "fastprof/recorder/hot_path/name_lookup.hpp"
#include "fastprof/recorder/names/file_names.hpp"
#include "fastprof/recorder/store/arena.hpp"

FASTPROF_NAMESPACE_BEGIN

// Header of a memory block of a store that can be freed (session names). From mmap.
struct NameBlock {
  NameBlock* next;
  size_t size_bytes;
};

constexpr uint64_t kLastingNameBytes = 64u << 20;
constexpr size_t kNameBlockBytes = 1u << 20;

// Marks an entry whose prototype's library is unloaded. Never dereferenced.
inline const Site* forgotten_site() noexcept {
  return reinterpret_cast<const Site*>(uintptr_t{16});
}

// Allocates zeroed memory for names, 16-aligned; null if mmap fails. The lasting store's comes from
// the arena and is never freed.
inline void* allocate_names(State* s, NameStore& store, size_t bytes) noexcept {
  if (&store == &s->lasting_names) return arena_allocate(s, bytes);
  bytes = (bytes + 15) & ~size_t{15};
  if (store.next == nullptr || static_cast<size_t>(store.end - store.next) < bytes) {
    const size_t header = (sizeof(NameBlock) + 15) & ~size_t{15};
    const bool own = bytes > kNameBlockBytes / 4;
    const size_t size = own ? bytes + header : kNameBlockBytes;
    void* memory = platform::map_memory(size);
    if (memory == nullptr) return nullptr;
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

// Frees a store's memory and resets it.
inline void free_names(NameStore& store) noexcept {
  for (NameBlock* block = store.blocks; block != nullptr;) {
    NameBlock* next = block->next;
    ::munmap(block, block->size_bytes);
    block = next;
  }
  store = NameStore{};
}

// Whether the address lies in the store's memory.
inline bool holds_name(const NameStore& store, const void* address) noexcept {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const NameBlock* block = store.blocks; block != nullptr; block = block->next) {
    const auto first = reinterpret_cast<uintptr_t>(block);
    if (at >= first && at < first + block->size_bytes) return true;
  }
  return false;
}

// Whether the store's bound applies. Copies of names that records refer to ignore it: the bound on
// records limits their number.
enum class NameBound : bool { applies, ignored };

// Makes room for one more entry; publishes a table of four times the capacity if half is used.
// False if memory is short.
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

// Allocates an entry, not yet in the table; null if the bound is reached or memory is short.
inline InternEntry* new_entry(State* s, NameStore& store, const char* text, size_t length,
                              NameBound bound) noexcept {
  const size_t bytes = sizeof(InternEntry) + length + 1;
  const uint64_t most = &store == &s->lasting_names ? kLastingNameBytes : s->max_name_bytes;
  if (bound == NameBound::applies && store.bytes + bytes > most) return nullptr;
  if (!grow_table(s, store)) return nullptr;
  auto* entry = static_cast<InternEntry*>(allocate_names(s, store, bytes));
  if (entry == nullptr) return nullptr;
  store.bytes += bytes;
  if (length != 0) std::memcpy(entry->text(), text, length);  // an empty string_view may be null
  entry->length = length;
  return entry;
}

// Publishes an entry whose site and `like` are set.
inline void insert_entry(State* s, NameStore& store, InternEntry* entry, uint64_t hash) noexcept {
  entry->site.name = entry->text();
  entry->site.flags = (entry->site.flags & ~site_flag::reclaimable) |
                      (&store == &s->lasting_names ? 0 : site_flag::reclaimable);
  entry->hash = hash;
  if (entry->like != nullptr && entry->like != forgotten_site()) {
    entry->next = store.listed;
    store.listed = entry;
  }
  copy_name(s, entry);
  InternTable* table = store.table;
  uint64_t i = hash;
  while (table->slots[i & (table->capacity - 1)] != nullptr) ++i;
  store_release(&table->slots[i & (table->capacity - 1)], entry);
  ++table->count;
}

// Whether two strings, or null pointers, are equal.
inline bool same_text(const char* a, const char* b) noexcept {
  return a == b || (a != nullptr && b != nullptr && std::strcmp(a, b) == 0);
}

// Whether two sites are equal except for their names.
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

// The entry of `text` whose library was unloaded and whose site equals `like`, or null.
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

// Finds or inserts an entry. Null if the bound is reached or memory is short.
inline InternEntry* intern_locked(State* s, NameStore& store, const Site* like, const char* text,
                                  size_t length, NameBound bound = NameBound::applies) noexcept {
  const uint64_t hash = hash_name(like, text, length);
  if (const InternEntry* found = find_interned(store, like, text, length, hash))
    return const_cast<InternEntry*>(found);
  if (like != nullptr) {
    // The library was unloaded and is loaded again: reuse the entry, which its records refer to.
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
