// SPDX-License-Identifier: Apache-2.0
// How a library shows its State to the others of the process, and how it finds theirs: an ELF note
// in each, which dl_iterate_phdr(3) reaches.
#pragma once

#include <elf.h>
#include <link.h>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/shared_state.hpp"

// The ELF note: owner "fastprof", type = ABI major, two PC-relative words (to State and to
// __ehdr_start). Readers use only their difference, so tools that move notes do no harm.
__asm__(
    ".ifndef fastprof_v1_note\n"
    ".pushsection .note.fastprof,\"aG\",%note,fastprof_v1_note,comdat\n"
    ".balign 8\n"
    ".weak fastprof_v1_note\n"
    ".hidden fastprof_v1_note\n"
    "fastprof_v1_note:\n"
    ".long 9\n"
    ".long 16\n"
    ".long " FASTPROF_STRING(FASTPROF_ABI_MAJOR) "\n"
    ".asciz \"fastprof\"\n"
    ".balign 4\n"
    ".hidden __ehdr_start\n"
    ".quad fastprof_v1_state - .\n"
    ".quad __ehdr_start - .\n"
    ".popsection\n"
    ".endif\n");

// Attributes of the State's definition: the note refers to it by its assembler name.
#define FASTPROF_SHARED_STATE __attribute__((used))

FASTPROF_NAMESPACE_BEGIN

namespace discovery {

// The State that a note's two PC-relative words refer to; null if it lies outside the object's
// writable segments or lacks the magic. Only the pair is meaningful: state - ehdr = words[0] -
// words[1] - 8 (8: the distance between the words).
inline State* state_of_note(const dl_phdr_info* info, const unsigned char* words,
                            const Wanted& wanted) noexcept {
  int64_t to_state, to_ehdr;
  __builtin_memcpy(&to_state, words, 8);
  __builtin_memcpy(&to_ehdr, words + 8, 8);
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
          address % wanted.alignment != 0)
        continue;
      if (__builtin_memcmp(reinterpret_cast<const void*>(address), wanted.magic, kMagicBytes) == 0)
        return reinterpret_cast<State*>(address);
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
      __builtin_memcpy(&name_size, at, 4);
      __builtin_memcpy(&text_size, at + 4, 4);
      __builtin_memcpy(&type, at + 8, 4);
      const size_t text_at = (12 + static_cast<size_t>(name_size) + align - 1) & ~(align - 1);
      const size_t size = (text_at + text_size + align - 1) & ~(align - 1);
      if (text_at + text_size > static_cast<size_t>(end - at)) break;
      if (name_size == 9 && __builtin_memcmp(at + 12, "fastprof", 9) == 0 && text_size == 16) {
        if (type != FASTPROF_ABI_MAJOR) {
          if (found->other_count < 16) found->other_paths[found->other_count++] = info->dlpi_name;
        } else if (State* state = state_of_note(info, at + text_at, found->wanted)) {
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
inline Found scan_objects(const void* self, const Wanted& wanted) noexcept {
  Found found;
  found.wanted = wanted;
  found.self = reinterpret_cast<uintptr_t>(self);
  dl_iterate_phdr(&visit, &found);
  return found;
}

}  // namespace discovery

FASTPROF_NAMESPACE_END
