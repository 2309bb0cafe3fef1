// SPDX-License-Identifier: Apache-2.0
// Sizes of symbols of loaded code, and entries of its unwind tables, on Darwin.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/darwin/images.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Null: code is described by compact unwind information, which only the compiler's unwinder reads.
// Stacks are walked by that unwinder.
inline const void* find_frame_entry(void*, void**) noexcept {
  return nullptr;
}

// Size in bytes of the function or object of loaded code whose symbol begins at this address, up to
// the next symbol; 0 if unknown.
inline uint64_t symbol_size(const void* address) noexcept {
  const auto at = reinterpret_cast<uintptr_t>(address);
  uint64_t size = 0;
  for_each_image([&](const Image& image) {
    bool inside = false;
    image.for_each_segment([&](const Segment& segment) { inside = inside || segment.holds(at); });
    if (!inside) return true;
    size = size_in_symbol_table(image.header(), static_cast<intptr_t>(image.base()),
                                at - image.base());
    return false;
  });
  return size;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
