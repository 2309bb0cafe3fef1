// SPDX-License-Identifier: Apache-2.0
// Reads Values: the accessors that raise errors, which an annotated library need not compile.
#pragma once

#include <string>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/primitives/value.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns the name of a type ("int64", "tensor"). Static text.
constexpr const char* value_type_name(ValueType type) noexcept {
  switch (type) {
    case ValueType::none:
      return "none";
    case ValueType::int64:
      return "int64";
    case ValueType::float64:
      return "float64";
    case ValueType::boolean:
      return "bool";
    case ValueType::string:
      return "string";
    case ValueType::list:
      return "list";
    case ValueType::tensor:
      return "tensor";
  }
  return "unknown";
}

[[noreturn]] FASTPROF_COLD inline void raise_wrong_value_type(ValueType held, ValueType wanted) {
  raise<ValueError>(std::string("this fastprof::Value holds ") + value_type_name(held) + ", not " +
                    value_type_name(wanted) + "; look at type() first");
}

inline void Value::check(ValueType wanted) const {
  if (FASTPROF_UNLIKELY(type_ != wanted)) raise_wrong_value_type(type_, wanted);
}
inline int64_t Value::as_int64() const {
  return check(ValueType::int64), int64_;
}
inline double Value::as_float64() const {
  return check(ValueType::float64), float64_;
}
inline bool Value::as_bool() const {
  return check(ValueType::boolean), boolean_;
}
inline std::string_view Value::as_string() const {
  return check(ValueType::string), string();
}
inline Span<const Value> Value::as_list() const {
  return check(ValueType::list), list_values();
}
inline TensorDescription Value::as_tensor() const {
  return check(ValueType::tensor), tensor();
}

FASTPROF_NAMESPACE_END
