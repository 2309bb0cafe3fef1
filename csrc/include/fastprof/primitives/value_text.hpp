// SPDX-License-Identifier: Apache-2.0
// Formats Values as readable text and as valid JSON.
#pragma once

#include <cinttypes>
#include <ostream>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/base/json_escape.hpp"
#include "fastprof/primitives/device_text.hpp"
#include "fastprof/primitives/value.hpp"
#include "fastprof/primitives/value_read.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace value_text_detail {

inline void append_ints(std::string& out, Span<const int64_t> values, const char* separator) {
  out.push_back('[');
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != 0) out.append(separator);
    append_json_int(out, values[i]);
  }
  out.push_back(']');
}

inline void append_pointer(std::string& out, const void* pointer) {
  char buffer[24];
  std::snprintf(buffer, sizeof buffer, "0x%" PRIxPTR, reinterpret_cast<uintptr_t>(pointer));
  out.append(buffer);
}

}  // namespace value_text_detail

// Appends the value as JSON (RFC 8259). NaN and infinities become the strings "NaN", "Infinity" and
// "-Infinity"; malformed UTF-8 becomes U+FFFD. A tensor becomes an object with shape, strides,
// dtype, device and data_ptr (a hexadecimal string, because a JSON reader may keep only 53 bits).
// The nesting depth of lists is not limited.
inline void append_json(std::string& out, const Value& value) {
  switch (value.type()) {
    case ValueType::none:
      out.append("null");
      return;
    case ValueType::int64:
      append_json_int(out, value.as_int64());
      return;
    case ValueType::float64:
      append_json_double(out, value.as_float64());
      return;
    case ValueType::boolean:
      out.append(value.as_bool() ? "true" : "false");
      return;
    case ValueType::string:
      append_json_string(out, value.as_string());
      return;
    case ValueType::list: {
      out.push_back('[');
      const char* separator = "";
      for (const Value& item : value.as_list()) {
        out.append(separator);
        append_json(out, item);
        separator = ",";
      }
      out.push_back(']');
      return;
    }
    case ValueType::tensor: {
      const TensorDescription tensor = value.as_tensor();
      out.append("{\"shape\":");
      value_text_detail::append_ints(out, tensor.shape, ",");
      out.append(",\"strides\":");
      value_text_detail::append_ints(out, tensor.strides, ",");
      out.append(",\"dtype\":\"").append(dtype_name(tensor.dtype));
      out.append("\",\"device\":\"").append(to_string(tensor.device));
      out.append("\",\"data_ptr\":\"");
      value_text_detail::append_pointer(out, tensor.pointer);
      out.append("\"}");
      return;
    }
  }
}

// Returns the value as JSON, see append_json.
inline std::string to_json(const Value& value) {
  std::string out;
  append_json(out, value);
  return out;
}

// Appends the value as readable text: strings quoted and escaped, a tensor as "float32[2, 3]
// cuda:0".
inline void append_text(std::string& out, const Value& value) {
  switch (value.type()) {
    case ValueType::none:
      out.append("None");
      return;
    case ValueType::list: {
      out.push_back('[');
      const char* separator = "";
      for (const Value& item : value.as_list()) {
        out.append(separator);
        append_text(out, item);
        separator = ", ";
      }
      out.push_back(']');
      return;
    }
    case ValueType::tensor: {
      const TensorDescription tensor = value.as_tensor();
      out.append(dtype_name(tensor.dtype));
      value_text_detail::append_ints(out, tensor.shape, ", ");
      out.append(" ").append(to_string(tensor.device));
      return;
    }
    default:
      append_json(out, value);
      return;
  }
}

// Returns the value as readable text, see append_text.
inline std::string to_string(const Value& value) {
  std::string out;
  append_text(out, value);
  return out;
}

inline std::ostream& operator<<(std::ostream& out, const Value& value) {
  return out << to_string(value);
}

FASTPROF_NAMESPACE_END
