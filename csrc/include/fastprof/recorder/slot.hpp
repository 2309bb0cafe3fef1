// SPDX-License-Identifier: Apache-2.0
// Slot: the 24 bytes of one record, and the atomic accesses every writer and reader of chunk memory
// goes through.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/site.hpp"

FASTPROF_NAMESPACE_BEGIN

// Chunk memory is written by one thread and read by others while it is written. The builtins cost
// the same machine code as plain accesses and are no data race; C++17 has no atomic_ref.
template <class Type>
FASTPROF_ALWAYS_INLINE Type load_relaxed(const Type* p) noexcept {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
template <class Type>
FASTPROF_ALWAYS_INLINE Type load_acquire(const Type* p) noexcept {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
template <class Type>
FASTPROF_ALWAYS_INLINE void store_relaxed(Type* p, Type value) noexcept {
  __atomic_store_n(p, value, __ATOMIC_RELAXED);
}
template <class Type>
FASTPROF_ALWAYS_INLINE void store_release(Type* p, Type value) noexcept {
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
}

// A record. Valid iff begin >= chunk.open_ticks; a range is closed iff end != 0 && end >= begin.
// Write order: begin = 0 before it is reserved, reserve, end = 0, site, argument units, then begin
// with release (partner: the drain's acquire load of begin); end with release (partner: the drain's
// acquire load of end).
struct Slot {
  uint64_t begin;
  uint64_t end;
  uintptr_t site;  // address of a Site plus a RecordTag
};
static_assert(sizeof(Slot) == 24, "the slot is ABI");

// What lies behind the last record is of an earlier life of the chunk: words of any value. The next
// slot must look like no record from the moment it is reserved until it is written.
FASTPROF_ALWAYS_INLINE void blank_slot(Slot* slot) noexcept {
  store_relaxed(&slot->begin, uint64_t{0});
}

// A unit of argument or detail words behind a slot. Same size as a slot: everything in a chunk is a
// multiple of it.
struct Unit {
  uint64_t words[3];
};
static_assert(sizeof(Unit) == sizeof(Slot), "units and slots tile a chunk");

FASTPROF_ALWAYS_INLINE const Site* site_of(uintptr_t word) noexcept {
  return reinterpret_cast<const Site*>(word & ~kTagMask);
}
FASTPROF_ALWAYS_INLINE RecordTag tag_of(uintptr_t word) noexcept {
  return static_cast<RecordTag>(word & kTagMask);
}
FASTPROF_ALWAYS_INLINE uintptr_t site_word(const Site* site, RecordTag tag) noexcept {
  return reinterpret_cast<uintptr_t>(site) | static_cast<uintptr_t>(tag);
}

// Units a record occupies, its slot included. For detailed records the header word must be readable
// (begin valid).
inline uint32_t record_units(const Slot* slot) noexcept {
  const uintptr_t word = load_relaxed(&slot->site);
  switch (tag_of(word)) {
    case RecordTag::slot:
      return 1u + site_of(word)->arg_units;
    case RecordTag::late:
    case RecordTag::foreign_end:
    case RecordTag::async_end:
      return 2;
    case RecordTag::detailed: {
      const uint32_t arg_units = site_of(word)->arg_units;
      const auto* units = reinterpret_cast<const Unit*>(slot + 1) + arg_units;
      const uint64_t header = load_relaxed(&units->words[0]);
      const auto words = static_cast<uint32_t>(header);  // DetailHeader::words, little endian
      return 1u + arg_units + (words + 1 + 2) / 3;
    }
  }
  return 1;
}

FASTPROF_NAMESPACE_END
