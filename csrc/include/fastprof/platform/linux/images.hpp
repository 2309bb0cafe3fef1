// SPDX-License-Identifier: Apache-2.0
// The objects (program, libraries, vdso) that are loaded in this process, as dl_iterate_phdr(3)
// lists them.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/segment.hpp"
#include "fastprof/platform/linux/build_id.hpp"
#include "fastprof/platform/linux/process.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// A loaded object. Valid only in the call that was given it.
class Image {
 public:
  Image(const dl_phdr_info* info, size_t size, bool is_main) noexcept
      : info_(info), size_(size), main_(is_main) {}

  // As the loader reports it; empty for the program.
  const char* path() const noexcept { return info_->dlpi_name != nullptr ? info_->dlpi_name : ""; }
  // Load address minus linked address.
  uintptr_t base() const noexcept { return info_->dlpi_addr; }
  bool is_program() const noexcept { return main_; }
  // The page of the kernel that has functions in it: a complete file in memory, and nowhere else.
  bool is_of_the_kernel() const noexcept {
    return std::strncmp(path(), "linux-vdso", 10) == 0 ||
           std::strncmp(path(), "linux-gate", 10) == 0;
  }

  // How many objects have been loaded and unloaded so far. False if the C library does not say.
  bool changes(uint64_t* loads, uint64_t* unloads) const noexcept {
    if (size_ < offsetof(dl_phdr_info, dlpi_subs) + sizeof info_->dlpi_subs) return false;
    *loads = info_->dlpi_adds;
    *unloads = info_->dlpi_subs;
    return true;
  }

  // Calls found(const Segment&) for each segment.
  template <class Found>
  void for_each_segment(Found&& found) const {
    for (int i = 0; i < info_->dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = info_->dlpi_phdr[i];
      if (header.p_type != PT_LOAD) continue;
      found(Segment{info_->dlpi_addr + header.p_vaddr, header.p_memsz, header.p_filesz,
                    header.p_vaddr, (header.p_flags & PF_R) != 0, (header.p_flags & PF_W) != 0,
                    (header.p_flags & PF_X) != 0});
    }
  }

  // The lowest address of its segments.
  uintptr_t first() const noexcept {
    uintptr_t lowest = UINTPTR_MAX;
    for_each_segment([&](const Segment& s) { lowest = s.first < lowest ? s.first : lowest; });
    return lowest;
  }

  // Identifies the file's content, in lower-case hexadecimal; empty if it has no such note.
  std::string build_id() const {
    std::string id;
    for (int i = 0; i < info_->dlpi_phnum && id.empty(); ++i) {
      const ElfW(Phdr)& header = info_->dlpi_phdr[i];
      if (header.p_type == PT_NOTE)
        id = build_id_of_notes(reinterpret_cast<const uint8_t*>(info_->dlpi_addr + header.p_vaddr),
                               header.p_memsz);
    }
    return id;
  }

 private:
  const dl_phdr_info* info_;
  size_t size_;
  bool main_;
};

// Calls visit(const Image&) for each loaded object, the program first, until it returns false. The
// loader's lock is held meanwhile: the visitor must not load, unload or look up libraries.
template <class Visit>
void for_each_image(Visit&& visit) {
  struct Walk {
    Visit& visit;
    bool first;
    static int step(dl_phdr_info* info, size_t size, void* argument) {
      auto* walk = static_cast<Walk*>(argument);
      const bool first = walk->first;
      walk->first = false;
      return walk->visit(Image(info, size, first)) ? 0 : 1;
    }
  };
  Walk walk{visit, true};
  ::dl_iterate_phdr(&Walk::step, &walk);
}

}  // namespace platform
FASTPROF_NAMESPACE_END
