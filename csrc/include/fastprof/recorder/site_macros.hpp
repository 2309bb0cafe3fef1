// SPDX-License-Identifier: Apache-2.0
// How macros make sites: static, constant-initialised, hidden, one for each place in the source.
#pragma once

#include <cstring>
#include <string_view>
#include <type_traits>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/intern.hpp"
#include "fastprof/recorder/site.hpp"

// g++ gives a local constant the visibility of its type, which is hidden. Clang gives one in an
// inline function that of the function, whatever is said here: such a site is a weak symbol under
// the function's own name, as its other statics are. (internal_linkage is no way out: clang 14 then
// merges all constants of one name in a translation unit.)
#if defined(__clang__)
#define FASTPROF_LOCAL_CONSTANT __attribute__((visibility("hidden"))) static constexpr
#else
#define FASTPROF_LOCAL_CONSTANT static constexpr
#endif

FASTPROF_NAMESPACE_BEGIN

constexpr const char* default_category_name(uint32_t mask) noexcept {
  if ((mask & category::user) != 0) return "user_annotation";
  if ((mask & category::op) != 0) return "cpu_op";
  if ((mask & (category::mark | category::memory)) != 0) return "cpu_instant_event";
  if ((mask & category::counter) != 0) return "counter";
  if ((mask & category::flow) != 0) return "flow";
  // Kineto has no category for async work: such a range is an annotation like any other, so that
  // tables show one row for a name.
  if ((mask & category::async) != 0) return "user_annotation";
  if ((mask & category::python_call) != 0) return "python_function";
  return "user_annotation";
}

constexpr Site make_site(SiteKind kind, uint32_t mask, RecordScope scope, const char* name,
                         const char* file, const char* function, uint32_t line,
                         uint8_t arg_count = 0, const char* const* arg_names = nullptr,
                         const ArgType* arg_types = nullptr, uint32_t color = 0) noexcept {
  return Site{mask,
              kind,
              scope,
              arg_count,
              static_cast<uint8_t>((arg_count + 2) / 3),
              name,
              default_category_name(mask),
              file,
              function,
              line,
              color,
              arg_names,
              arg_types,
              -1,
              -1,
              0};
}

// The ArgType that a value of type T is recorded as.
template <class Type>
constexpr ArgType arg_type_of() noexcept {
  using Plain = std::decay_t<Type>;
  if constexpr (std::is_same_v<Plain, bool>)
    return ArgType::boolean;
  else if constexpr (std::is_enum_v<Plain>)
    return arg_type_of<std::underlying_type_t<Plain>>();
  else if constexpr (std::is_floating_point_v<Plain>)
    return ArgType::float64;
  else if constexpr (std::is_integral_v<Plain>)
    return std::is_signed_v<Plain> ? ArgType::int64 : ArgType::uint64;
  else if constexpr (std::is_convertible_v<Plain, std::string_view>)
    return ArgType::string;
  else {
    static_assert(std::is_pointer_v<Plain>,
                  "fastprof arguments are integers, floats, bools, strings, enums or pointers");
    return ArgType::pointer;
  }
}

// The word that records it, in a record that is written while `use` lives. Strings are copied
// (about 5 ns each when known), so the caller's may die.
template <class Type>
FASTPROF_ALWAYS_INLINE uint64_t arg_word(NameUse& use, const Type& value) noexcept {
  using Plain = std::decay_t<Type>;
  if constexpr (std::is_enum_v<Plain>)
    return arg_word(use, static_cast<std::underlying_type_t<Plain>>(value));
  else if constexpr (std::is_floating_point_v<Plain>) {
    const auto wide = static_cast<double>(value);
    uint64_t word;
    std::memcpy(&word, &wide, 8);
    return word;
  } else if constexpr (std::is_integral_v<Plain>)
    return static_cast<uint64_t>(value);
  else if constexpr (std::is_convertible_v<const Type&, std::string_view>)
    return static_cast<uint64_t>(
        reinterpret_cast<uintptr_t>(session_string(use, std::string_view(value))));
  else
    return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(value));
}
// Of a value that is no string.
template <class Type>
FASTPROF_ALWAYS_INLINE uint64_t arg_word(const Type& value) noexcept {
  static_assert(arg_type_of<Type>() != ArgType::string, "text needs a NameUse");
  NameUse unused;
  return arg_word(unused, value);
}

FASTPROF_NAMESPACE_END
