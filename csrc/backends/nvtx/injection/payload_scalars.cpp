// SPDX-License-Identifier: Apache-2.0
// Reading of predefined types: see payload_scalars.hpp.
#include "backends/nvtx/injection/payload_scalars.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "backends/annotations/wide_text.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {
namespace {

template <class Number>
uint64_t bits_of(Number value) noexcept {
  static_assert(sizeof(Number) == sizeof(uint64_t));
  uint64_t word;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

// Returns the number of this type at `at`, as a value without a name.
template <class Number>
ReadValue number_at(const uint8_t* at) {
  Number number;
  std::memcpy(&number, at, sizeof number);
  ReadValue value;
  if constexpr (std::is_floating_point_v<Number>) {
    value.type = ArgType::float64;
    value.word = bits_of(static_cast<double>(number));
  } else if constexpr (std::is_signed_v<Number>) {
    value.type = ArgType::int64;
    value.word = static_cast<uint64_t>(static_cast<int64_t>(number));
  } else {
    value.type = ArgType::uint64;
    value.word = number;
  }
  return value;
}

template <class Number>
constexpr Scalar scalar(bool is_character = false, bool is_pointer = false) noexcept {
  return {sizeof(Number), &number_at<Number>, is_character, is_pointer};
}

}  // namespace

Scalar scalar_of(uint64_t type) noexcept {
  using namespace entry_type;
  switch (type) {
    case character:
      return scalar<char>(true);
    case char8:
      return scalar<uint8_t>(true);
    case int8:
      return scalar<int8_t>();
    case uchar:
    case uint8:
    case byte:
      return scalar<uint8_t>();
    case short_:
    case int16:
      return scalar<int16_t>();
    case ushort:
    case uint16:
      return scalar<uint16_t>();
    case char16:
      return scalar<uint16_t>(true);
    case int_:
    case int32:
      return scalar<int32_t>();
    case uint:
    case uint32:
    case category:
    case pid32:
    case tid32:
      return scalar<uint32_t>();
    case color:
      return scalar<uint32_t>(false, true);  // shown in hexadecimal
    case char32:
    case wchar:
      return scalar<uint32_t>(true);
    case long_:
    case longlong:
    case int64:
      return scalar<int64_t>();
    case ulong:
    case ulonglong:
    case uint64:
    case size:
    case scope:
    case pid64:
    case tid64:
      return scalar<uint64_t>();
    case address:
      return scalar<uint64_t>(false, true);
    case float_:
    case float32:
      return scalar<float>();
    case double_:
    case float64:
      return scalar<double>();
    case long_double:
      return scalar<long double>();
    default:
      return {};
  }
}

size_t character_size(uint64_t type) noexcept {
  switch (type) {
    case entry_type::text:
    case entry_type::text8:
      return 1;
    case entry_type::text16:
      return 2;
    case entry_type::text32:
      return 4;
    default:
      return 0;
  }
}

std::string text_at(const uint8_t* at, size_t count, size_t character_bytes) {
  if (character_bytes == 1) {
    const auto* text = reinterpret_cast<const char*>(at);
    return {text, ::strnlen(text, count)};
  }
  std::wstring wide;
  for (size_t i = 0; i < count; ++i) {
    uint32_t point = 0;
    std::memcpy(&point, at + i * character_bytes, character_bytes);  // little endian
    if (point == 0) break;
    if (character_bytes == 2 && point >= 0xD800 && point < 0xDC00 && i + 1 < count) {
      uint16_t low;
      std::memcpy(&low, at + (i + 1) * 2, sizeof low);
      if (low >= 0xDC00 && low < 0xE000) {
        point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00u);
        ++i;
      }
    }
    wide.push_back(static_cast<wchar_t>(point));
  }
  return annotations::utf8_of(wide.c_str());
}

std::string text_of(const ReadValue& value) {
  char text[40];
  switch (value.type) {
    case ArgType::string:
      return value.text;
    case ArgType::int64:
      return std::to_string(static_cast<int64_t>(value.word));
    case ArgType::float64: {
      double number;
      std::memcpy(&number, &value.word, sizeof number);
      std::snprintf(text, sizeof text, "%.9g", number);
      return text;
    }
    case ArgType::pointer:
      std::snprintf(text, sizeof text, "0x%" PRIx64, value.word);
      return text;
    default:
      return std::to_string(value.word);
  }
}

}  // namespace nvtx
FASTPROF_NAMESPACE_END
