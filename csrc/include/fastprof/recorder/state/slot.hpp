// SPDX-License-Identifier: Apache-2.0
// Slot: the 24 bytes of one record; and the atomic accesses that all writers and readers of chunk
// memory use.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN

// Chunk memory is read by other threads while its thread writes it. These builtins compile to plain
// moves and avoid a data race; C++17 has no atomic_ref.
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
// Write order: begin = 0 (before the reservation), reserve, end = 0, site, argument units, then
// begin with release (partner: the drain's acquire load of begin); end with release (partner: the
// drain's acquire load of end).
struct Slot {
  uint64_t begin;
  uint64_t end;
  uintptr_t site;  // address of a Site plus a RecordTag
};
static_assert(sizeof(Slot) == 24, "the slot is ABI");

// Makes a slot invalid. Memory behind the last record holds stale data from the chunk's previous
// use, so the next slot is blanked before it is reserved.
FASTPROF_ALWAYS_INLINE void blank_slot(Slot* slot) noexcept {
  store_relaxed(&slot->begin, uint64_t{0});
}

// Three argument or detail words behind a slot. Same size as a slot, so that a chunk is an array.
struct Unit {
  uint64_t words[3];
};
static_assert(sizeof(Unit) == sizeof(Slot), "units and slots tile a chunk");

FASTPROF_ALWAYS_INLINE const Site* site_of(uintptr_t word) noexcept {
  return reinterpret_cast<const Site*>(word & kSiteMask);
}
FASTPROF_ALWAYS_INLINE RecordTag tag_of(uintptr_t word) noexcept {
  return static_cast<RecordTag>(word & kTagMask);
}
FASTPROF_ALWAYS_INLINE uintptr_t site_word(const Site* site, RecordTag tag) noexcept {
  return reinterpret_cast<uintptr_t>(site) | static_cast<uintptr_t>(tag);
}

// The line of the code that made a call; 0: unknown.
FASTPROF_ALWAYS_INLINE uint32_t call_line_of(uintptr_t word) noexcept {
  const auto line = static_cast<uint32_t>(word >> kCallLineShift);
  return line == kNoCallLine ? 0 : line;
}
// The same word with another site.
FASTPROF_ALWAYS_INLINE uintptr_t with_site(uintptr_t word, const Site* site) noexcept {
  return reinterpret_cast<uintptr_t>(site) | (word & ~kSiteMask);
}

// Units that a record occupies, its slot included. The begin of a detailed record must be valid:
// its header word is read.
inline uint32_t record_units(const Slot* slot) noexcept {
  const uintptr_t word = load_relaxed(&slot->site);
  switch (tag_of(word)) {
    case RecordTag::slot:
      return 1u + site_of(word)->arg_units;
    case RecordTag::late:
    case RecordTag::cross_thread_end:
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
