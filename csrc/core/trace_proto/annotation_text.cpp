// SPDX-License-Identifier: Apache-2.0
// Conversion of debug annotations to JSON: see annotation_text.hpp.
#include "core/trace_proto/annotation_text.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/trace_json/json_cursor.hpp"
#include "core/trace_proto/wire.hpp"
#include "fastprof/export/perfetto_fields.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_proto {
namespace annotation = perfetto::debug_annotation;

namespace {

constexpr int kMaxDepth = 16;

void append_number(std::string& json, double number) {
  if (std::isnan(number)) {
    json += "NaN";
  } else if (std::isinf(number)) {
    json += number < 0 ? "-Infinity" : "Infinity";
  } else {
    char text[32];
    size_t size;
#if defined(__cpp_lib_to_chars)
    size = static_cast<size_t>(std::to_chars(text, text + sizeof text, number).ptr - text);
#else
    size = static_cast<size_t>(std::snprintf(text, sizeof text, "%.17g", number));
#endif
    json.append(text, size);
    // Without a point or exponent, JSON readers would take it for an integer.
    if (std::string_view(text, size).find_first_of(".e") == std::string_view::npos) json += ".0";
  }
}

void append_hex(std::string& json, uint64_t number) {
  char text[24];
  const int size =
      std::snprintf(text, sizeof text, "\"0x%llx\"", static_cast<unsigned long long>(number));
  json.append(text, static_cast<size_t>(size));
}

bool is_json_value(std::string_view text) {
  trace_json::Cursor cursor{text.data(), text.data() + text.size()};
  // The cursor cannot tell where a number at the end of the buffer ends, so bare numbers are
  // refused; surrounding spaces are unusual.
  return !text.empty() && text.back() > ' ' &&
         cursor.skip_value(trace_json::kMaxDepth) == trace_json::Read::done &&
         cursor.at == cursor.end;
}

enum class Kind : uint8_t { none, leaf, dict, list };

}  // namespace

bool append_string(std::string& json, std::string_view text) {
  json += '"';
  const char* plain = text.data();
  const char* const end = text.data() + text.size();
  trace_json::Cursor cursor{plain, end};
  while (cursor.at != end) {
    const auto byte = static_cast<unsigned char>(*cursor.at);
    if (byte >= 0x80) {
      if (cursor.skip_utf8() != trace_json::Read::done) return false;
      continue;
    }
    if (byte >= 0x20 && byte != '"' && byte != '\\') {
      ++cursor.at;
      continue;
    }
    json.append(plain, static_cast<size_t>(cursor.at - plain));
    char escape[8];
    if (byte == '"' || byte == '\\') {
      json += '\\';
      json += static_cast<char>(byte);
    } else {
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      json += escape;
    }
    plain = ++cursor.at;
  }
  json.append(plain, static_cast<size_t>(end - plain));
  json += '"';
  return true;
}

bool append_annotation(std::string& name, std::string& value, std::string_view message,
                       const InternedTexts& texts, int depth) {
  if (depth > kMaxDepth) return false;
  Kind kind = Kind::none;
  bool has_name = false;
  std::string entry_name;
  Fields fields(message);
  while (fields.next()) {
    const bool is_bytes = fields.wire == Wire::bytes;
    const bool is_varint = fields.wire == Wire::varint;
    switch (fields.number) {
      case annotation::name_iid:
      case annotation::name: {
        const bool is_iid = fields.number == annotation::name_iid;
        if (has_name || !(is_iid ? is_varint : is_bytes)) return false;
        has_name = true;
        if (!is_iid) {
          if (!append_string(name, fields.bytes)) return false;
        } else {
          const std::string_view known = texts.annotation_name(fields.value);
          if (known.empty()) return false;
          name += known;
        }
        break;
      }
      case annotation::dict_entries:
      case annotation::array_values: {
        const Kind wanted = fields.number == annotation::dict_entries ? Kind::dict : Kind::list;
        if (!is_bytes || (kind != Kind::none && kind != wanted)) return false;
        value += kind == Kind::none ? (wanted == Kind::dict ? "{" : "[") : ", ";
        kind = wanted;
        entry_name.clear();
        std::string item;
        if (!append_annotation(entry_name, item, fields.bytes, texts, depth + 1)) return false;
        if (kind == Kind::dict) {
          value += entry_name;
          value += ": ";
        }
        value += item;
        break;
      }
      default: {
        if (kind != Kind::none) return false;
        kind = Kind::leaf;
        const bool is_json = fields.number == annotation::legacy_json_value;
        const bool is_text = is_json || fields.number == annotation::string_value;
        const bool is_real = fields.number == annotation::double_value;
        if (is_text ? !is_bytes : is_real ? fields.wire != Wire::fixed64 : !is_varint) return false;
        switch (fields.number) {
          case annotation::bool_value:
            value += fields.value != 0 ? "true" : "false";
            break;
          case annotation::uint_value:
            value += std::to_string(fields.value);
            break;
          case annotation::int_value:
            value += std::to_string(static_cast<int64_t>(fields.value));
            break;
          case annotation::double_value: {
            double number;
            std::memcpy(&number, &fields.value, 8);
            append_number(value, number);
            break;
          }
          case annotation::string_value:
            if (!append_string(value, fields.bytes)) return false;
            break;
          case annotation::legacy_json_value:
            if (!is_json_value(fields.bytes)) return false;  // the caller shows it as text
            value += fields.bytes;
            break;
          case annotation::pointer_value:
            append_hex(value, fields.value);
            break;
          case annotation::string_value_iid: {
            const std::string_view known = texts.annotation_text(fields.value);
            if (known.empty()) return false;
            value += known;
            break;
          }
          default:
            return false;
        }
      }
    }
  }
  if (!fields.done()) return false;
  if (!has_name) name += "\"\"";
  if (kind == Kind::none) value += "null";
  if (kind == Kind::dict) value += '}';
  if (kind == Kind::list) value += ']';
  return true;
}

}  // namespace trace_proto
FASTPROF_NAMESPACE_END
