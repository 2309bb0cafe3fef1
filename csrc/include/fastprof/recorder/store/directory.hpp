// SPDX-License-Identifier: Apache-2.0
// Directory of a backing file: what the records refer to by address, as an append-only list. A
// reader sees only complete entries, because `used` is stored behind them.
#pragma once

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/site.hpp"
#include "fastprof/recorder/store/backing_file.hpp"

FASTPROF_NAMESPACE_BEGIN

// memcpy that AddressSanitizer does not check: memory that looks like a site (module_sites.hpp) may
// be parts of several variables and the gaps between them.
__attribute__((no_sanitize_address)) inline void copy_raw(void* to, const void* from,
                                                          size_t count) noexcept {
#if FASTPROF_ASAN
  for (size_t i = 0; i < count; ++i)
    static_cast<volatile char*>(to)[i] = static_cast<const volatile char*>(from)[i];
#else
  if (count != 0) std::memcpy(to, from, count);
#endif
}

// Writes one entry into reserved memory; created by add_entry().
class EntryWriter {
 public:
  EntryWriter(char* at) noexcept : at_(at) {}
  void bytes(const void* from, size_t count) noexcept {
    copy_raw(at_, from, count);
    at_ += count;
  }
  // A text with its length in front.
  void text(const char* from, uint32_t length) noexcept {
    bytes(&length, sizeof length);
    bytes(from, length);
  }

 private:
  char* at_;
};

// The directory that entries are appended to.
inline Directory* last_directory(const BackingFile* file) noexcept {
  char* segment = file->directories[file->directory_count - 1];
  return reinterpret_cast<Directory*>(file->directory_count == 1 ? segment + kFirstDirectoryAt
                                                                 : segment);
}

// Makes the next directory; false if there is no room. State::lock held.
inline bool add_directory(BackingFile* file) noexcept {
  if (file->directory_count == kMaxDirectories) return false;
  char* segment = nullptr;
  int error = 0;
  const uint64_t position = take_segment(file, kReservedAtOnce, nullptr, &segment, &error);
  if (position == 0) return false;
  file->directories[file->directory_count++] = segment;
  file->directory_reserved = kReservedAtOnce;
  Directory* directory = last_directory(file);
  directory->header_bytes = sizeof(Directory);
  directory->used = 0;
  directory->segment = position;
  store_release(&directory->magic, kDirectoryMagic);
  return true;
}

// Finds room for an entry of `bytes` in the last directory; null if there is none. State::lock
// held.
inline char* entry_place(BackingFile* file, uint64_t bytes) noexcept {
  for (int tries = 0; tries < 2; ++tries) {
    Directory* directory = last_directory(file);
    char* segment = file->directories[file->directory_count - 1];
    char* at = reinterpret_cast<char*>(directory + 1) + directory->used;
    const auto end = static_cast<uint64_t>(at - segment) + bytes;
    if (end <= kSlabBytes) {
      if (end <= file->directory_reserved) return at;
      const uint64_t more =
          (end - file->directory_reserved + kReservedAtOnce - 1) & ~(kReservedAtOnce - 1);
      const uint64_t room = kSlabBytes - file->directory_reserved;
      const uint64_t reserve = more < room ? more : room;
      if (platform::reserve_in_file(file_descriptor(file),
                                    directory->segment * kSlabBytes + file->directory_reserved,
                                    reserve) != 0)
        return nullptr;
      file->directory_reserved += reserve;
      return at;
    }
    if (!add_directory(file)) return nullptr;
  }
  return nullptr;  // longer than a segment
}

// Appends an entry; `write(EntryWriter&)` writes its `content_bytes`. If there is no room, the
// header counts it. State::lock held, the file in force.
template <class Write>
void add_entry(BackingFile* file, EntryType type, const void* address, uint64_t content_bytes,
               uint32_t text_bytes, Write&& write) noexcept {
  const uint64_t bytes = (sizeof(DirectoryEntry) + content_bytes + 7) & ~uint64_t{7};
  char* at = bytes <= kSlabBytes - sizeof(Directory) ? entry_place(file, bytes) : nullptr;
  if (at == nullptr) {
    file->header->names_lost = ++file->names_lost;
    return;
  }
  const DirectoryEntry entry{static_cast<uint32_t>(bytes),        type, 0, text_bytes, 0,
                             reinterpret_cast<uintptr_t>(address)};
  EntryWriter writer(at);
  writer.bytes(&entry, sizeof entry);
  write(writer);
  Directory* directory = last_directory(file);
  store_release(&directory->used, directory->used + bytes);
}

// Appends an entry whose content is a text of `length` bytes. As add_entry.
inline void add_text_entry(BackingFile* file, EntryType type, const void* address, const char* text,
                           size_t length) noexcept {
  add_entry(file, type, address, length, static_cast<uint32_t>(length),
            [&](EntryWriter& writer) { writer.bytes(text, length); });
}

// Appends a site whose texts are zero-terminated or null. `length_of` measures a text (a module's
// must not be read past its segment).
template <class LengthOf>
void add_site_entry(BackingFile* file, const Site* address, LengthOf&& length_of) noexcept {
  Site copy;
  copy_raw(&copy, address, sizeof copy);
  const Site* site = &copy;
  const char* texts[4 + kMaxArgs] = {site->name, site->category_name, site->file, site->function};
  uint32_t lengths[4 + kMaxArgs] = {};
  const unsigned args =
      site->arg_names != nullptr && site->arg_types != nullptr && site->arg_count <= kMaxArgs
          ? site->arg_count
          : 0;
  copy_raw(texts + 4, site->arg_names, args * sizeof(const char*));
  uint64_t bytes = sizeof(SiteEntry) + args;
  for (unsigned i = 0; i < 4 + args; ++i) {
    lengths[i] = texts[i] != nullptr ? static_cast<uint32_t>(length_of(texts[i])) : 0;
    bytes += sizeof(uint32_t) + lengths[i];
  }
  add_entry(file, EntryType::site, address, bytes, 0, [&](EntryWriter& writer) {
    const SiteEntry entry{site->mask,
                          static_cast<uint8_t>(site->kind),
                          static_cast<uint8_t>(site->scope),
                          static_cast<uint8_t>(args),
                          site->arg_units,
                          site->line,
                          site->color,
                          site->device_type,
                          site->device_index,
                          0};
    writer.bytes(&entry, sizeof entry);
    if (args != 0) writer.bytes(site->arg_types, args);
    for (unsigned i = 0; i < 4 + args; ++i) writer.text(texts[i], lengths[i]);
  });
}

FASTPROF_NAMESPACE_END
