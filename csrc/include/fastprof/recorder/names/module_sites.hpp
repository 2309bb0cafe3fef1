// SPDX-License-Identifier: Apache-2.0
// Copies the static sites of annotated libraries into the backing file. Records refer to them by
// address, and neither the compiler nor the linker lists them (a section of sites does not compile
// for inline and ordinary functions of one file), so they are recognised in the library's data by
// their layout. Other data that looks like a site is copied too, which is harmless: no record
// refers to it.
#pragma once

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/images.hpp"
#include "fastprof/recorder/state/lock.hpp"
#include "fastprof/recorder/store/directory.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace module_sites {

// The loaded, readable part of a segment.
struct Extent {
  uintptr_t first = 0, last = 0;
  bool holds(uintptr_t address, size_t bytes) const noexcept {
    return address >= first && address < last && bytes <= last - address;
  }
};

constexpr int kMaxExtents = 16;

// The segments of one library.
struct Extents {
  Extent all[kMaxExtents];
  bool searched[kMaxExtents];  // whether it may contain sites
  int count = 0;

  bool holds(const void* address, size_t bytes) const noexcept {
    for (int i = 0; i < count; ++i)
      if (all[i].holds(reinterpret_cast<uintptr_t>(address), bytes)) return true;
    return false;
  }
  // Length of a text, which ends with its segment at the latest.
  __attribute__((no_sanitize_address)) size_t length_of(const char* text) const noexcept {
    for (int i = 0; i < count; ++i) {
      if (!all[i].holds(reinterpret_cast<uintptr_t>(text), 1)) continue;
      const size_t most = all[i].last - reinterpret_cast<uintptr_t>(text);
      size_t length = 0;
      while (length < most && length < 64 * 1024 && text[length] != 0) ++length;
      return length;
    }
    return 0;
  }
};

// The segments of a loaded object. A site contains pointers, so in position-independent code the
// loader relocates it and it lies in a writable segment (.data.rel.ro, .data); in a program at a
// fixed address it may lie in a read-only one.
inline Extents extents_of(const platform::Image& image) noexcept {
  Extents extents;
  const bool relocated = image.base() != 0;
  image.for_each_segment([&](const platform::Segment& segment) {
    if (!segment.readable || extents.count == kMaxExtents) return;
    extents.all[extents.count] = {segment.first, segment.first + segment.file_bytes};
    extents.searched[extents.count++] = segment.writable || !relocated;
  });
  return extents;
}

// Whether the 80 bytes at `site` can be a Site of this library (make_site.hpp says what it fills
// in). The device of -1 tells most: without it, each variable that AddressSanitizer lists in a
// library's data looks like a site (9 MB of entries for a program of 33 MB). Reads raw memory that
// other threads may be writing.
__attribute__((no_sanitize_address, no_sanitize_thread)) inline bool looks_like_site(
    const Site* site, const Extents& extents) noexcept {
  uint8_t numbers[8];  // mask, kind, scope, arg_count, arg_units
  const auto* bytes = reinterpret_cast<const volatile uint8_t*>(site);
  for (int i = 0; i < 8; ++i) numbers[i] = bytes[i];
  if (numbers[4] > static_cast<uint8_t>(SiteKind::session_membership) ||
      numbers[5] >= static_cast<uint8_t>(RecordScope::NUM_SCOPES) || numbers[6] > kMaxArgs ||
      numbers[7] > (kMaxArgs + 2) / 3 ||
      !payload_fits(static_cast<SiteKind>(numbers[4]), numbers[6], numbers[7]) ||
      site->color > 0xFFFFFF || site->flags != 0 || site->device_type != -1 ||
      site->device_index != -1)
    return false;
  const auto text = [&extents](const char* t) { return t == nullptr || extents.holds(t, 1); };
  if (site->name == nullptr || !text(site->name) || !text(site->category_name) ||
      !text(site->file) || !text(site->function))
    return false;
  if (numbers[6] == 0) return true;
  if (!extents.holds(site->arg_types, numbers[6]) ||
      !extents.holds(site->arg_names, numbers[6] * sizeof(const char*)))
    return false;
  for (unsigned i = 0; i < numbers[6]; ++i)
    if (static_cast<uint8_t>(site->arg_types[i]) > static_cast<uint8_t>(ArgType::pointer) ||
        site->arg_names[i] == nullptr || !text(site->arg_names[i]))
      return false;
  return true;
}

// Calls found(site) for each site of a library. About 0.1 ms per MB of writable data.
template <class Found>
__attribute__((no_sanitize_address)) void for_each_site(const Extents& extents, Found&& found) {
  for (int i = 0; i < extents.count; ++i) {
    if (!extents.searched[i]) continue;
    const Extent& extent = extents.all[i];
    for (uintptr_t at = (extent.first + 15) & ~uintptr_t{15}; extent.holds(at, sizeof(Site));
         at += 16) {
      const auto* site = reinterpret_cast<const Site*>(at);
      if (looks_like_site(site, extents)) found(site);
    }
  }
}

// Which libraries a walk over the loaded objects copies.
struct Wanted {
  State* s;
  const Module* only;  // null: all that have joined
};

// Whether the object at this address has joined the recorder. Takes State::lock.
inline bool has_joined(const Wanted& wanted, uintptr_t first) noexcept {
  if (wanted.only != nullptr) return wanted.only->first == first;
  StateLock hold(wanted.s);
  for (const Module* module = wanted.s->modules; module != nullptr; module = module->next)
    if (module->first == first) return true;
  return false;
}

// Copies the sites of one object. False: no file is in force any more. The loader's lock is held,
// so that the object stays loaded.
inline bool copy_sites(const platform::Image& image, const Wanted& wanted) noexcept {
  const Extents extents = extents_of(image);
  const uintptr_t first = image.first();
  if (!has_joined(wanted, first)) return true;
  StateLock hold(wanted.s);
  if (!file_in_force(wanted.s)) return false;
  BackingFile* file = wanted.s->backing_file;
  const char* path = image.path();
  add_text_entry(file, EntryType::module, reinterpret_cast<const void*>(first), path,
                 std::strlen(path));
  for_each_site(extents, [&](const Site* site) {
    add_site_entry(file, site, [&](const char* text) { return extents.length_of(text); });
  });
  return true;
}

}  // namespace module_sites

// Copies the sites of all libraries that have joined into the file in force. No lock held: the
// loader's comes before State::lock.
inline void copy_module_sites(State* s) noexcept {
  const module_sites::Wanted wanted{s, nullptr};
  platform::for_each_image(
      [&](const platform::Image& image) { return module_sites::copy_sites(image, wanted); });
}

// Leader function, see RecorderFunctions.
inline void leader_module_loaded(State* s, const Module* module) noexcept {
  if (FASTPROF_LIKELY(!file_in_force(s))) return;
  const module_sites::Wanted wanted{s, module};
  platform::for_each_image(
      [&](const platform::Image& image) { return module_sites::copy_sites(image, wanted); });
}

FASTPROF_NAMESPACE_END
