// SPDX-License-Identifier: Apache-2.0
// Reads the load commands of a loaded Mach-O image: its segments, sections, id and symbol table.
// Format: <mach-o/loader.h> and <mach-o/nlist.h>. Commands of unexpected size are skipped.
#pragma once

#include <mach-o/loader.h>
#include <mach-o/nlist.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/segment.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Calls found(const load_command&) for each command, until it returns false. Nothing happens if the
// header is not that of a 64-bit image.
template <class Found>
void for_each_command(const mach_header_64* header, Found&& found) {
  if (header == nullptr || header->magic != MH_MAGIC_64) return;
  const auto* at = reinterpret_cast<const char*>(header + 1);
  const char* end = at + header->sizeofcmds;
  for (uint32_t i = 0; i < header->ncmds; ++i) {
    if (static_cast<size_t>(end - at) < sizeof(load_command)) return;
    const auto* command = reinterpret_cast<const load_command*>(at);
    if (command->cmdsize < sizeof *command || command->cmdsize > static_cast<size_t>(end - at))
      return;
    if (!found(*command)) return;
    at += command->cmdsize;
  }
}

// Calls found(const segment_command_64&) for each segment that is mapped with access, so not for
// __PAGEZERO.
template <class Found>
void for_each_segment_command(const mach_header_64* header, Found&& found) {
  for_each_command(header, [&](const load_command& command) {
    if (command.cmd != LC_SEGMENT_64 || command.cmdsize < sizeof(segment_command_64)) return true;
    const auto& segment = reinterpret_cast<const segment_command_64&>(command);
    if (segment.initprot != 0 && segment.vmsize != 0) found(segment);
    return true;
  });
}

// Compares a Mach-O name with `name`. It has up to 16 characters, and no NUL at its end if it has
// 16.
inline bool is_named(const char (&field)[16], const char* name) noexcept {
  return std::strncmp(field, name, sizeof field) == 0;
}

// The loaded bytes of a section; null if the image has none of that name. `slide`: address in this
// process minus address in the file.
inline const char* find_section(const mach_header_64* header, intptr_t slide, const char* segment,
                                const char* section, size_t* bytes) noexcept {
  const char* result = nullptr;
  for_each_segment_command(header, [&](const segment_command_64& in) {
    const size_t room = (in.cmdsize - sizeof in) / sizeof(section_64);
    const auto* sections = reinterpret_cast<const section_64*>(&in + 1);
    for (size_t i = 0; i < in.nsects && i < room; ++i) {
      const section_64& candidate = sections[i];
      if (!is_named(candidate.segname, segment) || !is_named(candidate.sectname, section) ||
          candidate.addr < in.vmaddr || candidate.addr - in.vmaddr > in.vmsize ||
          candidate.size > in.vmsize - (candidate.addr - in.vmaddr))
        continue;
      *bytes = static_cast<size_t>(candidate.size);
      result = reinterpret_cast<const char*>(static_cast<uintptr_t>(candidate.addr) +
                                             static_cast<uintptr_t>(slide));
    }
  });
  return result;
}

inline Segment loaded_segment(const segment_command_64& command, intptr_t slide) noexcept {
  const uint64_t from_file = command.filesize < command.vmsize ? command.filesize : command.vmsize;
  return {static_cast<uintptr_t>(command.vmaddr) + static_cast<uintptr_t>(slide),
          static_cast<size_t>(command.vmsize),
          static_cast<size_t>(from_file),
          command.vmaddr,
          (command.initprot & VM_PROT_READ) != 0,
          (command.initprot & VM_PROT_WRITE) != 0,
          (command.initprot & VM_PROT_EXECUTE) != 0};
}

// Size in bytes of the function or object that begins at a linked address: up to the next symbol of
// the table. Mach-O has no sizes. 0 if no symbol begins there, or none follows.
inline uint64_t size_in_symbol_table(const mach_header_64* header, intptr_t slide,
                                     uint64_t linked) noexcept {
  const symtab_command* table = nullptr;
  const segment_command_64* names = nullptr;
  for_each_command(header, [&](const load_command& command) {
    if (command.cmd == LC_SYMTAB && command.cmdsize >= sizeof *table)
      table = reinterpret_cast<const symtab_command*>(&command);
    return true;
  });
  for_each_segment_command(header, [&](const segment_command_64& segment) {
    if (is_named(segment.segname, SEG_LINKEDIT)) names = &segment;
  });
  if (table == nullptr || names == nullptr || table->symoff < names->fileoff) return 0;
  const uint64_t at = table->symoff - names->fileoff;
  if (at > names->filesize || (names->filesize - at) / sizeof(nlist_64) < table->nsyms) return 0;
  const auto* symbols = reinterpret_cast<const nlist_64*>(
      static_cast<uintptr_t>(names->vmaddr + at) + static_cast<uintptr_t>(slide));
  bool begins = false;
  uint64_t next = UINT64_MAX;
  for (uint32_t i = 0; i < table->nsyms; ++i) {
    const nlist_64& symbol = symbols[i];
    if ((symbol.n_type & N_STAB) != 0 || (symbol.n_type & N_TYPE) != N_SECT) continue;
    if (symbol.n_value == linked) begins = true;
    if (symbol.n_value > linked && symbol.n_value < next) next = symbol.n_value;
  }
  return begins && next != UINT64_MAX ? next - linked : 0;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
