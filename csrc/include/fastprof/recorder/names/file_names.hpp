// SPDX-License-Identifier: Apache-2.0
// Copies interned names into the backing file. State::lock held throughout.
#pragma once

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/name_lookup.hpp"
#include "fastprof/recorder/store/directory.hpp"

FASTPROF_NAMESPACE_BEGIN

// Appends an entry of a name store to the file in force, if there is one. Call it before other
// threads can find the entry: a record that refers to it is then never without its name.
inline void copy_name(State* s, const InternEntry* entry) noexcept {
  if (FASTPROF_LIKELY(!file_in_force(s))) return;
  if (entry->like == nullptr)
    add_text_entry(s->backing_file, EntryType::text, entry->text(), entry->text(), entry->length);
  else
    add_site_entry(s->backing_file, &entry->site,
                   [](const char* text) { return std::strlen(text); });
}

// Appends all names that are interned already, when a file comes into force.
inline void copy_all_names(State* s) noexcept {
  for (const NameStore* store : {&s->lasting_names, &s->session_names}) {
    const InternTable* table = store->table;
    for (uint64_t i = 0; table != nullptr && i < table->capacity; ++i)
      if (const InternEntry* entry = table->slots[i]) copy_name(s, entry);
  }
}

FASTPROF_NAMESPACE_END
