// SPDX-License-Identifier: Apache-2.0
// Discovery: finds the process's other annotated libraries by their ELF notes.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace discovery {

constexpr int kMaxObjects = 512;

// Result of one walk over the loaded objects. The walk calls nothing that takes the loader's lock.
struct Found {
  State* states[kMaxObjects];  // of our ABI major, in link-map order
  const char* paths[kMaxObjects];
  int count = 0;
  const char* other_paths[16];  // the first 16 objects with another ABI major
  int other_count = 0;
  uintptr_t self = 0;  // an address in the object whose path and extent are wanted
  uintptr_t self_first = 0, self_last = 0;
  const char* self_path = nullptr;
};

// The State that a note's two PC-relative words refer to; null if it lies outside the object's
// writable segments or lacks the magic. Only the pair is meaningful: state - ehdr = words[0] -
// words[1] - 8 (8: the distance between the words).
inline State* state_of_note(const dl_phdr_info* info, const unsigned char* words) noexcept {
  int64_t to_state, to_ehdr;
  std::memcpy(&to_state, words, 8);
  std::memcpy(&to_ehdr, words + 8, 8);
  const int64_t distance = to_state - to_ehdr - 8;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& anchor = info->dlpi_phdr[i];
    if (anchor.p_type != PT_LOAD) continue;
    const uintptr_t ehdr = info->dlpi_addr + anchor.p_vaddr - anchor.p_offset;
    const uintptr_t address = ehdr + static_cast<uintptr_t>(distance);
    for (int j = 0; j < info->dlpi_phnum; ++j) {
      const auto& segment = info->dlpi_phdr[j];
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
      const uintptr_t first = info->dlpi_addr + segment.p_vaddr;
      if (address < first || address + 64 > first + segment.p_memsz ||
          address % alignof(State) != 0)
        continue;
      auto* found = reinterpret_cast<State*>(address);
      if (std::memcmp(found->magic, own_state.magic, sizeof own_state.magic) == 0) return found;
    }
  }
  return nullptr;
}

// Callback for dl_iterate_phdr: adds the notes of one object to a Found.
inline int visit(dl_phdr_info* info, size_t, void* argument) noexcept {
  auto* found = static_cast<Found*>(argument);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type == PT_LOAD && found->self >= info->dlpi_addr + header.p_vaddr &&
        found->self < info->dlpi_addr + header.p_vaddr + header.p_memsz) {
      found->self_path = info->dlpi_name;
      found->self_first = UINTPTR_MAX;
      for (int j = 0; j < info->dlpi_phnum; ++j) {
        const auto& load = info->dlpi_phdr[j];
        if (load.p_type != PT_LOAD) continue;
        const uintptr_t first = info->dlpi_addr + load.p_vaddr;
        if (first < found->self_first) found->self_first = first;
        if (first + load.p_memsz > found->self_last) found->self_last = first + load.p_memsz;
      }
    }
    if (header.p_type != PT_NOTE) continue;
    const size_t align = header.p_align == 8 ? 8 : 4;
    const auto* at = reinterpret_cast<const unsigned char*>(info->dlpi_addr + header.p_vaddr);
    const unsigned char* end = at + header.p_memsz;
    while (end - at >= 12) {
      uint32_t name_size, text_size, type;
      std::memcpy(&name_size, at, 4);
      std::memcpy(&text_size, at + 4, 4);
      std::memcpy(&type, at + 8, 4);
      const size_t text_at = (12 + static_cast<size_t>(name_size) + align - 1) & ~(align - 1);
      const size_t size = (text_at + text_size + align - 1) & ~(align - 1);
      if (text_at + text_size > static_cast<size_t>(end - at)) break;
      if (name_size == 9 && std::memcmp(at + 12, "fastprof", 9) == 0 && text_size == 16) {
        if (type != FASTPROF_ABI_MAJOR) {
          if (found->other_count < 16) found->other_paths[found->other_count++] = info->dlpi_name;
        } else if (State* state = state_of_note(info, at + text_at)) {
          if (found->count < kMaxObjects) {
            found->states[found->count] = state;
            found->paths[found->count++] = info->dlpi_name;
          }
        }
      }
      at += size < static_cast<size_t>(end - at) ? size : static_cast<size_t>(end - at);
    }
  }
  return 0;
}

// Walks the loaded objects. `self`: an address in the object whose path is wanted.
inline Found scan_libraries(const void* self) noexcept {
  Found found;
  found.self = reinterpret_cast<uintptr_t>(self);
  dl_iterate_phdr(&visit, &found);
  return found;
}

}  // namespace discovery

FASTPROF_NAMESPACE_END
