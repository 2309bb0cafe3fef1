// SPDX-License-Identifier: Apache-2.0
// The objects (program, libraries) that are loaded in this process, as dyld lists them.
#pragma once

#include <mach-o/dyld.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/segment.hpp"
#include "fastprof/platform/darwin/mach_o.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// A loaded object. Valid only in the call that was given it.
class Image {
 public:
  Image(const mach_header_64* header, intptr_t slide, const char* path) noexcept
      : header_(header), slide_(slide), path_(path) {}

  const mach_header_64* header() const noexcept { return header_; }
  const char* path() const noexcept { return path_ != nullptr ? path_ : ""; }
  // Load address minus linked address.
  uintptr_t base() const noexcept { return static_cast<uintptr_t>(slide_); }
  bool is_program() const noexcept { return header_->filetype == MH_EXECUTE; }
  bool is_of_the_kernel() const noexcept { return false; }

  // Numbers of objects loaded and unloaded so far. Returns false: dyld does not report them.
  bool changes(uint64_t*, uint64_t*) const noexcept { return false; }

  // Calls found(const Segment&) for each segment.
  template <class Found>
  void for_each_segment(Found&& found) const {
    for_each_segment_command(header_, [&](const segment_command_64& segment) {
      found(loaded_segment(segment, slide_));
    });
  }

  // The lowest address of its segments.
  uintptr_t first() const noexcept {
    uintptr_t lowest = UINTPTR_MAX;
    for_each_segment([&](const Segment& s) { lowest = s.first < lowest ? s.first : lowest; });
    return lowest;
  }

  // Identifies the file's content (LC_UUID), in lower-case hexadecimal; empty if it has none.
  std::string build_id() const {
    std::string id;
    for_each_command(header_, [&](const load_command& command) {
      if (command.cmd != LC_UUID || command.cmdsize < sizeof(uuid_command)) return true;
      for (const uint8_t byte : reinterpret_cast<const uuid_command&>(command).uuid) {
        id += "0123456789abcdef"[byte >> 4];
        id += "0123456789abcdef"[byte & 15];
      }
      return false;
    });
    return id;
  }

 private:
  const mach_header_64* header_;
  intptr_t slide_;
  const char* path_;
};

// Calls visit(const Image&) for each loaded object, the program first, until it returns false. dyld
// does not hold a lock meanwhile and offers no walk under one: another thread may unload an object
// while the visitor reads it.
template <class Visit>
void for_each_image(Visit&& visit) {
  const uint32_t count = ::_dyld_image_count();
  for (uint32_t i = 0; i < count; ++i) {
    const auto* header = reinterpret_cast<const mach_header_64*>(::_dyld_get_image_header(i));
    if (header == nullptr || header->magic != MH_MAGIC_64) continue;
    if (!visit(Image(header, ::_dyld_get_image_vmaddr_slide(i), ::_dyld_get_image_name(i)))) return;
  }
}

}  // namespace platform
FASTPROF_NAMESPACE_END
