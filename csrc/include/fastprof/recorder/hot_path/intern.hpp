// SPDX-License-Identifier: Apache-2.0
// Interning of names made at run time: each name is copied once, then referred to by address like a
// static Site.
//
// There are two stores. Lasting names (intern_site, intern_string) live as long as the process.
// Session names (session_site, session_string) live as long as a session or an open record needs
// them; reclaim_names.hpp frees them between sessions. A thread that looks one up holds a NameUse
// from the lookup until the record is written. A cached name is valid only while State::name_epoch
// equals its value at the lookup; compare it under a NameUse.
#pragma once

#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/name_lookup.hpp"
#include "fastprof/recorder/hot_path/name_use.hpp"

FASTPROF_NAMESPACE_BEGIN

// The interned site named `name`, otherwise a copy of `like` (which must be static). It lives as
// long as the process, so use it only for a small set of names. `like` itself if the bound is
// reached. Any thread; about 10 ns if the name is known.
inline const Site* intern_site(const Site& like, std::string_view name) noexcept {
  State* s = state();
  const uint64_t hash = hash_name(&like, name.data(), name.size());
  if (const InternEntry* found =
          find_interned(s->lasting_names, &like, name.data(), name.size(), hash))
    return &found->site;
  if (s->functions == nullptr) return &like;
  return s->functions->intern_site(s, &like, name.data(), name.size());
}

// A copy of `text` that lives as long as the process; "<too many strings>" if the bound is reached.
// Any thread.
inline const char* intern_string(std::string_view text) noexcept {
  State* s = state();
  const uint64_t hash = hash_name(nullptr, text.data(), text.size());
  if (const InternEntry* found =
          find_interned(s->lasting_names, nullptr, text.data(), text.size(), hash))
    return found->text();
  if (s->functions == nullptr) return "";
  return s->functions->intern_string(s, text.data(), text.size());
}

// The site named `name`, otherwise a copy of `like` (which must be static), for one record. Begins
// `use`, which must live until the record is written. A name longer than State::max_name_length is
// cut; if the bound is reached, the result is `like` itself. Both are counted as DropCause::names.
// Any thread; about 5 ns if the name is known.
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

// The same for a string argument: a copy of `text`.
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
