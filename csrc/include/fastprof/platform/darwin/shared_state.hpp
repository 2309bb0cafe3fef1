// SPDX-License-Identifier: Apache-2.0
// How a library publishes its State, and how it finds those of other libraries. Mach-O has no
// notes, so the State itself lies in a section of its own, `__DATA,__fastprof`, which the load
// commands of each image list.
//
// The linker merges the States of an image's translation units into one. (The symbol is hidden, so
// dyld never merges those of several images.) Some linkers leave the bytes of the others in the
// section: no code refers to them, so they may take part in an election but never lead or join. The
// magic contains no pointer, so a State is recognisable before dyld has bound the image.
#pragma once

#include <cstdint>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/shared_state.hpp"
#include "fastprof/platform/darwin/images.hpp"

// Attributes of the State's definition. (Tests on Linux name a section that ELF can have.)
#ifndef FASTPROF_STATE_SECTION
#define FASTPROF_STATE_SECTION "__DATA,__fastprof"
#endif
#define FASTPROF_SHARED_STATE __attribute__((section(FASTPROF_STATE_SECTION)))

FASTPROF_NAMESPACE_BEGIN

namespace discovery {

// The fields that follow the magic in every State, independent of its ABI major.
struct StateHead {
  char magic[kMagicBytes];
  uint16_t abi_major;
  uint16_t abi_minor;
  uint32_t size_bytes;
};

// Adds the States of one image to a Found. The path of the program is empty.
inline void visit(const platform::Image& image, Found* found) noexcept {
  const char* path = image.is_program() ? "" : image.path();
  uintptr_t first = UINTPTR_MAX, last = 0;
  bool is_self = false;
  image.for_each_segment([&](const platform::Segment& segment) {
    is_self = is_self || segment.holds(found->self);
    if (segment.first < first) first = segment.first;
    if (segment.first + segment.bytes > last) last = segment.first + segment.bytes;
  });
  if (is_self) {
    found->self_path = path;
    found->self_first = first;
    found->self_last = last;
  }
  size_t bytes = 0;
  const char* at = platform::find_section(image.header(), static_cast<intptr_t>(image.base()),
                                          "__DATA", "__fastprof", &bytes);
  if (at == nullptr) return;
  const char* const end = at + bytes;
  const auto past = reinterpret_cast<uintptr_t>(at) % found->wanted.alignment;
  if (past != 0) at += found->wanted.alignment - past;
  while (at < end && static_cast<size_t>(end - at) >= sizeof(StateHead)) {
    const auto* head = reinterpret_cast<const StateHead*>(at);
    if (std::memcmp(head->magic, found->wanted.magic, kMagicBytes) != 0) {
      at += found->wanted.alignment;
      continue;
    }
    if (head->abi_major != FASTPROF_ABI_MAJOR) {
      if (found->other_count < 16) found->other_paths[found->other_count++] = path;
    } else if (found->count < kMaxObjects) {
      found->states[found->count] = reinterpret_cast<State*>(const_cast<char*>(at));
      found->paths[found->count++] = path;
    }
    at += found->wanted.alignment;
  }
}

// Walks the loaded objects. `self`: an address in the object whose path is wanted.
inline Found scan_objects(const void* self, const Wanted& wanted) noexcept {
  Found found;
  found.wanted = wanted;
  found.self = reinterpret_cast<uintptr_t>(self);
  platform::for_each_image([&](const platform::Image& image) {
    visit(image, &found);
    return true;
  });
  return found;
}

}  // namespace discovery

FASTPROF_NAMESPACE_END
