// SPDX-License-Identifier: Apache-2.0
// The build id of an ELF file, from its notes.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns the NT_GNU_BUILD_ID note in `bytes` bytes of notes as lower-case hexadecimal; empty if
// there is none.
inline std::string build_id_of_notes(const uint8_t* notes, size_t bytes) {
  size_t at = 0;
  while (bytes - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, notes + at, sizeof header);
    at += sizeof header;
    const uint64_t name = (uint64_t{header.n_namesz} + 3) & ~uint64_t{3};
    const uint64_t text = (uint64_t{header.n_descsz} + 3) & ~uint64_t{3};
    if (name > bytes - at || text > bytes - at - name) break;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
        std::memcmp(notes + at, "GNU", 4) == 0 && header.n_descsz <= 64) {
      std::string id;
      for (uint32_t i = 0; i < header.n_descsz; ++i) {
        const uint8_t byte = notes[at + name + i];
        id += "0123456789abcdef"[byte >> 4];
        id += "0123456789abcdef"[byte & 15];
      }
      return id;
    }
    at += static_cast<size_t>(name + text);
  }
  return {};
}

FASTPROF_NAMESPACE_END
