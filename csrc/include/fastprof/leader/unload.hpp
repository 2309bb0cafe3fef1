// SPDX-License-Identifier: Apache-2.0
// Unloading an annotated library: references to sites and strings in its memory are replaced by
// copies.
#pragma once

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"
#include "fastprof/recorder/names/kept_site.hpp"
#include "fastprof/recorder/store/track.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace unload {

// The library's address range.
struct Span {
  uintptr_t first, last;
  bool holds(const void* p) const noexcept {
    return reinterpret_cast<uintptr_t>(p) >= first && reinterpret_cast<uintptr_t>(p) < last;
  }
};

// Copies made during one unload, by address. A direct-mapped cache, because records alternate
// between a few sites.
struct CopiedSites {
  static constexpr size_t kCache = 64;
  const Site* from[kCache] = {};
  const Site* to[kCache] = {};

  const Site* copy(State* s, const Span& span, const Site* site) noexcept {
    const size_t at = (reinterpret_cast<uintptr_t>(site) >> 4) % kCache;
    if (from[at] != site) {
      const Site* kept = keep_site(s, s->session_names, span, *site);
      to[at] = kept != nullptr ? kept : &unread_site(site->arg_units);
      from[at] = site;
    }
    return to[at];
  }
};

// Rewrites the records of a chunk up to `last`, so that none refers to the library.
inline void rewrite_chunk(State* s, const Span& span, CopiedSites& copies, Chunk* chunk,
                          const Slot* last) noexcept {
  for (Slot* slot = chunk_slots(chunk); slot < last;) {
    if (load_acquire(&slot->begin) < chunk->open_ticks) break;
    const uint32_t units = record_units(slot);
    const uintptr_t word = load_relaxed(&slot->site);
    const Site* site = site_of(word);
    if (span.holds(site)) {
      site = copies.copy(s, span, site);
      store_relaxed(&slot->site, with_site(word, site));
    }
    if (tag_of(word) == RecordTag::slot || tag_of(word) == RecordTag::detailed) {
      auto* words = reinterpret_cast<uint64_t*>(slot + 1);
      for (unsigned i = 0; i < site->arg_count; ++i) {
        if (site->arg_types[i] != ArgType::string) continue;
        const auto* text = reinterpret_cast<const char*>(load_relaxed(&words[i]));
        if (span.holds(text))
          store_relaxed(&words[i], static_cast<uint64_t>(reinterpret_cast<uintptr_t>(
                                       keep_text(s, s->session_names, span, text))));
      }
    }
    slot += units;
  }
}

// Detaches names from prototypes in the library. The entries stay: when the same library is loaded
// again, intern_locked reuses them.
inline void forget_prototypes(State* s, const Span& span, NameStore& store) noexcept {
  for (InternEntry** link = &store.listed; *link != nullptr;) {
    InternEntry* entry = *link;
    keep_fields(s, store, span, entry->site);
    if (!span.holds(entry->like)) {
      link = &entry->next;
      continue;
    }
    *link = entry->next;
    store_relaxed(&entry->like, forgotten_site());
  }
}

}  // namespace unload

// Leader function, see RecorderFunctions. Called by the destructor of the library that occupies
// [first, last), when no thread can be executing its code. 0.9 ms per 10^6 records made since the
// library was loaded.
inline void leader_unload(State* s, uintptr_t first, uintptr_t last) noexcept {
  ScopedLock drains(s->drain_lock);
  StateLock hold(s);
  const unload::Span span{first, last};
  uint64_t loaded_ticks = 0;
  for (Module** link = &s->modules; *link != nullptr; link = &(*link)->next) {
    if ((*link)->first != first) continue;
    loaded_ticks = (*link)->loaded_ticks;
    *link = (*link)->next;
    break;
  }
  unload::forget_prototypes(s, span, s->lasting_names);
  unload::forget_prototypes(s, span, s->session_names);
  unload::CopiedSites copies;
  for (Track* track = s->tracks; track != nullptr; track = track->next)
    // Newest first, so that records made before the library was loaded are not visited.
    for (Chunk* chunk = track->newest; chunk != nullptr && chunk->close_ticks >= loaded_ticks;
         chunk = chunk->previous)
      unload::rewrite_chunk(s, span, copies, chunk, chunk_written_end(track, chunk));
  ++s->unload_epoch;
}

FASTPROF_NAMESPACE_END
