// SPDX-License-Identifier: Apache-2.0
// An annotated library is being unloaded: nothing that stays may refer to its sites or strings any
// more.
#pragma once

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/intern.hpp"
#include "fastprof/recorder/track.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace unload {

struct Span {
  uintptr_t first, last;
  bool holds(const void* p) const noexcept {
    return reinterpret_cast<uintptr_t>(p) >= first && reinterpret_cast<uintptr_t>(p) < last;
  }
};

// The text, or a copy of it when it lives in the span. State::lock held.
inline const char* keep_text(State* s, const Span& span, const char* text) noexcept {
  if (text == nullptr || !span.holds(text)) return text;
  const InternEntry* entry = intern_locked(s, nullptr, text, std::strlen(text));
  return entry != nullptr ? entry->text() : "<unloaded>";
}

// Replaces what a site refers to in the span by copies.
inline void keep_fields(State* s, const Span& span, Site& site) noexcept {
  site.name = keep_text(s, span, site.name);
  site.category_name = keep_text(s, span, site.category_name);
  site.file = keep_text(s, span, site.file);
  site.function = keep_text(s, span, site.function);
  const unsigned count = site.arg_count;
  if (count != 0 && span.holds(site.arg_names)) {
    auto** names = static_cast<const char**>(arena_allocate(s, count * sizeof(const char*)));
    for (unsigned i = 0; names != nullptr && i < count; ++i)
      names[i] = keep_text(s, span, site.arg_names[i]);
    site.arg_names = names;
  }
  if (count != 0 && span.holds(site.arg_types)) {
    auto* types = static_cast<ArgType*>(arena_allocate(s, count * sizeof(ArgType)));
    if (types != nullptr) std::memcpy(types, site.arg_types, count * sizeof(ArgType));
    site.arg_types = types;
  }
  if (site.arg_names == nullptr || site.arg_types == nullptr)
    site.arg_count = 0;  // units stay: the layout does
}

// Old site to its copy: a small open table that grows in the arena.
struct CopiedSites {
  struct Pair {
    const Site* from;
    const Site* to;
  };
  Pair* pairs = nullptr;
  size_t capacity = 0, count = 0;

  const Site* copy(State* s, const Span& span, const Site* from) noexcept {
    for (size_t i = count; i-- > 0;)
      if (pairs[i].from == from) return pairs[i].to;
    if (count == capacity) {
      const size_t grown = capacity == 0 ? 64 : capacity * 2;
      auto* bigger = static_cast<Pair*>(arena_allocate(s, grown * sizeof(Pair)));
      if (bigger == nullptr) return nullptr;
      if (count != 0) std::memcpy(bigger, pairs, count * sizeof(Pair));
      pairs = bigger;
      capacity = grown;
    }
    auto* to = static_cast<Site*>(arena_allocate(s, sizeof(Site)));
    if (to == nullptr) return nullptr;
    *to = *from;
    keep_fields(s, span, *to);
    pairs[count++] = Pair{from, to};
    return to;
  }
};

inline void rewrite_chunk(State* s, const Span& span, CopiedSites& copies, Chunk* chunk,
                          const Slot* last) noexcept {
  const Site* last_from = nullptr;
  const Site* last_to = nullptr;
  for (Slot* slot = chunk_slots(chunk); slot < last;) {
    if (load_acquire(&slot->begin) < chunk->open_ticks) break;
    const uint32_t units = record_units(slot);
    const uintptr_t word = load_relaxed(&slot->site);
    const Site* site = site_of(word);
    if (span.holds(site)) {
      if (site != last_from) {
        last_from = site;
        last_to = copies.copy(s, span, site);
      }
      if (last_to != nullptr) store_relaxed(&slot->site, site_word(last_to, tag_of(word)));
    }
    const Site* kept = site_of(load_relaxed(&slot->site));
    if (tag_of(word) == RecordTag::slot || tag_of(word) == RecordTag::detailed) {
      auto* words = reinterpret_cast<uint64_t*>(slot + 1);
      for (unsigned i = 0; i < kept->arg_count; ++i) {
        if (kept->arg_types[i] != ArgType::string) continue;
        const auto* text = reinterpret_cast<const char*>(load_relaxed(&words[i]));
        if (span.holds(text))
          store_relaxed(&words[i], static_cast<uint64_t>(
                                       reinterpret_cast<uintptr_t>(keep_text(s, span, text))));
      }
    }
    slot += units;
  }
}

}  // namespace unload

// Leader function, see RecorderFunctions. Called from the destructor of the library that owns
// [first, last), when no thread can be inside it. 0.9 ms per 10^6 records.
inline void leader_unload(State* s, uintptr_t first, uintptr_t last) noexcept {
  ScopedLock drains(s->drain_lock);
  StateLock hold(s);
  const unload::Span span{first, last};
  unload::CopiedSites copies;
  if (s->names != nullptr) {
    for (InternEntry* entry = s->names->all; entry != nullptr; entry = entry->next) {
      if (entry->like == nullptr || reinterpret_cast<uintptr_t>(entry->like) == kForgotten)
        continue;
      unload::keep_fields(s, span, entry->site);
      if (span.holds(entry->like))
        store_relaxed(&entry->like, reinterpret_cast<const Site*>(kForgotten));
    }
  }
  for (Track* track = s->tracks; track != nullptr; track = track->next)
    for (Chunk* chunk = track->oldest; chunk != nullptr; chunk = chunk->next)
      unload::rewrite_chunk(s, span, copies, chunk, chunk_written_end(track, chunk));
  for (Module** link = &s->modules; *link != nullptr; link = &(*link)->next) {
    if ((*link)->first != first) continue;
    *link = (*link)->next;
    break;
  }
  ++s->unload_epoch;
}

FASTPROF_NAMESPACE_END
