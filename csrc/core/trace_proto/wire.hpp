// SPDX-License-Identifier: Apache-2.0
// Protocol buffer wire format: the fields of a message in a buffer.
// Format: https://protobuf.dev/programming-guides/encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_proto {

enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// Reads a varint of at most 10 bytes from [at, end); returns false if it is cut short or longer.
inline bool read_varint(const char*& at, const char* end, uint64_t& value) noexcept {
  value = 0;
  for (int shift = 0; shift < 70 && at != end; shift += 7) {
    const auto byte = static_cast<unsigned char>(*at++);
    if (shift < 63 || byte < 2)  // the tenth byte has room for one bit
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    else
      return false;
    if (byte < 0x80) return true;
  }
  return false;
}

// The fields of a message, one after another:
//   while (fields.next()) switch (fields.number) ...
//   if (!fields.done()) ... the message is damaged
struct Fields {
  explicit Fields(std::string_view message) noexcept
      : at_(message.data()), end_(message.data() + message.size()) {}

  uint64_t number = 0;  // of the field
  Wire wire = Wire::varint;
  uint64_t value = 0;      // of a varint or fixed field
  std::string_view bytes;  // of a field of bytes

  bool next() noexcept {
    uint64_t tag;
    if (at_ == end_ || !read_varint(at_, end_, tag)) return fail_unless(at_ == end_);
    number = tag >> 3;
    wire = static_cast<Wire>(tag & 7);
    const auto left = static_cast<uint64_t>(end_ - at_);
    switch (wire) {
      case Wire::varint:
        return read_varint(at_, end_, value) || fail_unless(false);
      case Wire::fixed64:
        return take_fixed(8, left);
      case Wire::fixed32:
        return take_fixed(4, left);
      case Wire::bytes: {
        uint64_t size;
        if (!read_varint(at_, end_, size) || size > static_cast<uint64_t>(end_ - at_))
          return fail_unless(false);
        bytes = std::string_view(at_, static_cast<size_t>(size));
        at_ += size;
        return true;
      }
    }
    return fail_unless(false);
  }
  // Returns whether next() returned false because the message ended.
  bool done() const noexcept { return !failed_ && at_ == end_; }

 private:
  bool fail_unless(bool good) noexcept {
    if (!good) failed_ = true;
    return false;
  }
  bool take_fixed(size_t size, uint64_t left) noexcept {
    if (left < size) return fail_unless(false);
    value = 0;
    for (size_t i = 0; i < size; ++i)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(at_[i])) << (8 * i);
    at_ += size;
    return true;
  }

  const char* at_;
  const char* end_;
  bool failed_ = false;
};

}  // namespace trace_proto
FASTPROF_NAMESPACE_END
