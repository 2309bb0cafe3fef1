// SPDX-License-Identifier: Apache-2.0
// Protobuf wire format encoder: varints, fixed 64-bit words and length-delimited fields. Format:
// "Protocol Buffers: Encoding" (wire types: varint 0, 64-bit 1, length-delimited 2).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/base/json_escape.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr size_t kMaxVarintBytes = 10;

// Writes a varint of at most kMaxVarintBytes at `out`; returns the end.
FASTPROF_ALWAYS_INLINE char* put_varint(char* out, uint64_t value) noexcept {
  while (value >= 0x80) {
    *out++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<char>(value);
  return out;
}

// A message under construction. Negative integers are passed as their 64-bit pattern (int32, int64
// and enums alike).
class ProtoMessage {
 public:
  ProtoMessage& number(uint32_t field, uint64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(value);
    return *this;
  }
  ProtoMessage& fixed64(uint32_t field, uint64_t value) {
    varint(static_cast<uint64_t>(field) << 3 | 1);
    char bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
    bytes_.append(bytes, 8);
    return *this;
  }
  ProtoMessage& real(uint32_t field, double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return fixed64(field, bits);
  }
  // String fields must be UTF-8: malformed bytes become U+FFFD.
  ProtoMessage& text(uint32_t field, std::string_view value) {
    clean_.clear();
    append_utf8(clean_, value);
    return bytes(field, clean_);
  }
  ProtoMessage& bytes(uint32_t field, std::string_view value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes_.append(value);
    return *this;
  }
  ProtoMessage& message(uint32_t field, const ProtoMessage& value) {
    return bytes(field, value.bytes_);
  }
  // Appends already encoded fields.
  ProtoMessage& raw(std::string_view encoded) {
    bytes_.append(encoded);
    return *this;
  }

  void clear() noexcept { bytes_.clear(); }
  size_t size() const noexcept { return bytes_.size(); }
  const std::string& encoded() const noexcept { return bytes_; }

 private:
  void varint(uint64_t value) {
    char buffer[kMaxVarintBytes];
    bytes_.append(buffer, static_cast<size_t>(put_varint(buffer, value) - buffer));
  }

  std::string bytes_;
  std::string clean_;
};

FASTPROF_NAMESPACE_END
