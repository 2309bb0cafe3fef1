// SPDX-License-Identifier: Apache-2.0
// Layouts of std::string, std::variant and std::unordered_map, which libtorch's objects contain: of
// libstdc++, and of libc++ in its two forms. Each is documented ABI that the libraries keep stable.
// This library and libtorch are built with the same one, so it is chosen at compile time; all of
// them are here, so that tests run the others, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>  // defines the macro that names the standard library

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// The characters of a std::string, without the NUL that follows.
struct TextBounds {
  uintptr_t text;
  size_t length;
};

// String ABIs: rows of the tables of layouts hold for one.
enum class StringAbi : uint8_t { libstdcxx_older, libstdcxx, libcxx, libcxx_alternate };

// libstdc++ with the C++11 string ABI. A string: address, length, then 16 bytes for short texts. A
// node of a map: next, key, value, hash.
struct LibstdcxxLayout {
  static constexpr StringAbi kAbi = StringAbi::libstdcxx;
  static constexpr uint32_t kStringBytes = 32;
  static constexpr uint32_t kMapBytes = 56;
  static constexpr uint32_t kNodeKey = 8;  // from the node's begin; the value follows the key

  template <class Memory>
  FASTPROF_ALWAYS_INLINE static TextBounds load_text(Memory& memory, uintptr_t string) noexcept {
    return {memory.template load<uintptr_t>(string), memory.template load<size_t>(string + 8)};
  }
  // The bucket array of an empty map is its own single bucket.
  template <class Memory>
  static bool is_empty_map(Memory& memory, uintptr_t map) noexcept {
    return memory.template load<uintptr_t>(map) == map + 48 &&
           memory.template load<uint64_t>(map + 8) == 1 &&
           memory.template load<uint64_t>(map + 16) == 0 &&
           memory.template load<uint64_t>(map + 24) == 0 &&
           memory.template load<float>(map + 32) == 1.0f;
  }
};

// What both forms of libc++ share. A node of a map: next, hash, key, value.
struct LibcxxMapLayout {
  static constexpr uint32_t kStringBytes = 24;
  static constexpr uint32_t kMapBytes = 40;
  static constexpr uint32_t kNodeKey = 16;

  // An empty map has no buckets.
  template <class Memory>
  static bool is_empty_map(Memory& memory, uintptr_t map) noexcept {
    return memory.template load<uintptr_t>(map) == 0 &&
           memory.template load<uint64_t>(map + 8) == 0 &&
           memory.template load<uint64_t>(map + 16) == 0 &&
           memory.template load<uint64_t>(map + 24) == 0 &&
           memory.template load<float>(map + 32) == 1.0f;
  }
};

// libc++ (little-endian). A long string: capacity with the lowest bit set, length, address. A short
// one: twice its length in the first byte, then its characters.
struct LibcxxLayout : LibcxxMapLayout {
  static constexpr StringAbi kAbi = StringAbi::libcxx;

  template <class Memory>
  static TextBounds load_text(Memory& memory, uintptr_t string) noexcept {
    const auto head = memory.template load<uint8_t>(string);
    if ((head & 1) == 0) return {string + 1, static_cast<size_t>(head >> 1)};
    return {memory.template load<uintptr_t>(string + 16), memory.template load<size_t>(string + 8)};
  }
};

// libc++ as Apple's arm64 has it (_LIBCPP_ABI_ALTERNATE_STRING_LAYOUT). A long string: address,
// length, capacity with the highest bit set. A short one: its characters, and its length in the
// last byte.
struct LibcxxAlternateLayout : LibcxxMapLayout {
  static constexpr StringAbi kAbi = StringAbi::libcxx_alternate;

  template <class Memory>
  static TextBounds load_text(Memory& memory, uintptr_t string) noexcept {
    const auto last = memory.template load<uint8_t>(string + kStringBytes - 1);
    if ((last & 0x80) == 0) return {string, last};
    return {memory.template load<uintptr_t>(string), memory.template load<size_t>(string + 8)};
  }
};

#if defined(_LIBCPP_VERSION) && defined(_LIBCPP_ABI_ALTERNATE_STRING_LAYOUT)
using StandardLibrary = LibcxxAlternateLayout;
#elif defined(_LIBCPP_VERSION)
using StandardLibrary = LibcxxLayout;
#else
using StandardLibrary = LibstdcxxLayout;
#endif

// A std::unordered_map of any of them has its first node and its size here.
constexpr uint32_t kMapFirstNode = 16;
constexpr uint32_t kMapSize = 24;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
