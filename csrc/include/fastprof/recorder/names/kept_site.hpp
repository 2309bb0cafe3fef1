// SPDX-License-Identifier: Apache-2.0
// Copies of sites and texts whose memory is about to be freed: an unloaded library's, or a
// reclaimed store's. Equal sites share one copy. State::lock held throughout.
#pragma once

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/names/name_table.hpp"
#include "fastprof/recorder/state/make_site.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns `text`, or its copy in `store` if it lies in `gone`; "<unloaded>" if memory is short.
// `gone`: the memory that is about to be freed; gone.holds(address).
template <class Gone>
const char* keep_text(State* s, NameStore& store, const Gone& gone, const char* text) noexcept {
  if (text == nullptr || !gone.holds(text)) return text;
  const InternEntry* entry =
      intern_locked(s, store, nullptr, text, std::strlen(text), NameBound::ignored);
  return entry != nullptr ? entry->text() : "<unloaded>";
}

// Replaces the site's fields, except for its name, by copies in `store` if they lie in `gone`.
template <class Gone>
void keep_fields(State* s, NameStore& store, const Gone& gone, Site& site) noexcept {
  site.category_name = keep_text(s, store, gone, site.category_name);
  site.file = keep_text(s, store, gone, site.file);
  site.function = keep_text(s, store, gone, site.function);
  const unsigned count = site.arg_count;
  if (count == 0) return;
  if (gone.holds(site.arg_names)) {
    auto** names = static_cast<const char**>(allocate_names(s, store, count * sizeof(const char*)));
    if (names != nullptr) std::memcpy(names, site.arg_names, count * sizeof(const char*));
    site.arg_names = names;
    store.bytes += count * sizeof(const char*);
    for (unsigned i = 0; names != nullptr && i < count; ++i)
      names[i] = keep_text(s, store, gone, names[i]);
  }
  if (gone.holds(site.arg_types)) {
    auto* types = static_cast<ArgType*>(allocate_names(s, store, count * sizeof(ArgType)));
    if (types != nullptr) std::memcpy(types, site.arg_types, count * sizeof(ArgType));
    site.arg_types = types;
    store.bytes += count * sizeof(ArgType);
  }
  if (site.arg_names == nullptr || site.arg_types == nullptr)
    site.arg_count = 0;  // arg_units stays: it determines the record's length
}

// The copy of a site in `store`; null if memory is short.
template <class Gone>
const Site* keep_site(State* s, NameStore& store, const Gone& gone, const Site& from) noexcept {
  const char* name = from.name != nullptr ? from.name : "";
  const size_t length = std::strlen(name);
  const uint64_t hash = hash_name(&from, name, length);
  if (const InternEntry* known = find_forgotten(store, from, name, length, hash))
    return &known->site;
  InternEntry* entry = new_entry(s, store, name, length, NameBound::ignored);
  if (entry == nullptr) return nullptr;
  entry->site = from;
  entry->like = forgotten_site();
  keep_fields(s, store, gone, entry->site);
  if (!grow_table(s, store)) return nullptr;  // keep_fields inserted texts into the same table
  insert_entry(s, store, entry, hash);
  return &entry->site;
}

// Placeholder for a freed site, in a record that no session reads: keeps the record's length and
// has no category. `arg_units`: at most kMaxArgs / 3.
inline const Site& unread_site(uint32_t arg_units) noexcept {
  struct Sites {
    Site of[kMaxArgs / 3 + 1];
  };
  static constexpr Sites sites = [] {
    Sites made{};
    for (uint8_t i = 0; i <= kMaxArgs / 3; ++i) {
      made.of[i] = in_category(
          make_site(SiteKind::mark, 0, RecordScope::USER_SCOPE, "<unread>", nullptr, nullptr, 0),
          "");
      made.of[i].arg_units = i;
    }
    return made;
  }();
  return sites.of[arg_units];
}

FASTPROF_NAMESPACE_END
