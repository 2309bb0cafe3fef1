// SPDX-License-Identifier: Apache-2.0
// Building blocks for macros that define sites: static, constant-initialised, hidden, one per place
// in the source.
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"
#include "fastprof/recorder/state/make_site.hpp"
#include "fastprof/recorder/state/site.hpp"

// A local constant that is a site. g++ gives it the visibility of its type, which is hidden. Clang
// gives one in an inline function that function's visibility, despite the attribute: such a site is
// a weak symbol under the function's name, like its other statics. (internal_linkage does not help:
// clang 14 merges all such constants of one name in a translation unit.)
#if defined(__clang__)
#define FASTPROF_LOCAL_CONSTANT __attribute__((visibility("hidden"))) static constexpr
#else
#define FASTPROF_LOCAL_CONSTANT static constexpr
#endif

FASTPROF_NAMESPACE_BEGIN

// The ArgType in which a value of this type is recorded.
template <class Type>
constexpr ArgType arg_type_of() noexcept {
  using Plain = std::decay_t<Type>;
  if constexpr (std::is_same_v<Plain, bool>)
    return ArgType::boolean;
  else if constexpr (std::is_enum_v<Plain>)
    return arg_type_of<std::underlying_type_t<Plain>>();
  else if constexpr (std::is_floating_point_v<Plain>)
    return ArgType::float64;
  else if constexpr (std::is_integral_v<Plain>) {
    static_assert(sizeof(Plain) <= 8, "fastprof records integers of at most 64 bits");
    return std::is_signed_v<Plain> ? ArgType::int64 : ArgType::uint64;
  } else if constexpr (std::is_null_pointer_v<Plain>)
    return ArgType::pointer;
  else if constexpr (std::is_convertible_v<Plain, std::string_view>)
    return ArgType::string;
  else {
    static_assert(std::is_pointer_v<Plain>,
                  "fastprof arguments are integers, floats, bools, strings, enums or pointers");
    return ArgType::pointer;
  }
}

// The text of a value that converts to std::string_view; that of a null pointer is empty, as
// getenv() gives for a variable that is not set. Throws what the conversion throws.
template <class Type>
FASTPROF_ALWAYS_INLINE std::string_view text_of(Type&& value) {
  using Plain = std::remove_cv_t<std::remove_reference_t<Type>>;
  if constexpr (std::is_null_pointer_v<Plain>)
    return {};
  else if constexpr (std::is_pointer_v<Plain>)
    return value != nullptr ? static_cast<std::string_view>(value) : std::string_view();
  else
    return static_cast<std::string_view>(std::forward<Type>(value));
}

// Encodes a value in one word, for a record that is written while `use` lives. Strings are interned
// (about 5 ns each if known), so the caller's string may be destroyed. Throws what a conversion to
// text throws.
template <class Type>
FASTPROF_ALWAYS_INLINE uint64_t arg_word(NameUse& use, const Type& value) {
  using Plain = std::decay_t<Type>;
  if constexpr (std::is_enum_v<Plain>)
    return arg_word(use, static_cast<std::underlying_type_t<Plain>>(value));
  else if constexpr (std::is_floating_point_v<Plain>) {
    const auto wide = static_cast<double>(value);
    uint64_t word;
    __builtin_memcpy(&word, &wide, 8);
    return word;
  } else if constexpr (std::is_integral_v<Plain>)
    return static_cast<uint64_t>(value);
  else if constexpr (std::is_null_pointer_v<Plain>)
    return 0;
  else if constexpr (std::is_convertible_v<const Type&, std::string_view>)
    return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(session_string(use, text_of(value))));
  else
    return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(value));
}
// The same for a value that is not a string.
template <class Type>
FASTPROF_ALWAYS_INLINE uint64_t arg_word(const Type& value) noexcept {
  static_assert(arg_type_of<Type>() != ArgType::string, "text needs a NameUse");
  NameUse unused;
  return arg_word(unused, value);
}

FASTPROF_NAMESPACE_END
