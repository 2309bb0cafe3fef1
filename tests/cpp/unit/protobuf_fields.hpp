// SPDX-License-Identifier: Apache-2.0
// Fields of a message in protobuf's wire format, as tests of Perfetto traces read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "check.hpp"

namespace protobuf_fields {

// One decoded field: a number or bytes.
struct Field {
  uint32_t id = 0;
  uint32_t wire = 0;  // 0: varint, 1: 64 bits, 2: bytes
  uint64_t number = 0;
  std::string_view bytes;
};

inline bool read_varint(std::string_view& in, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 70 && !in.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 127) << (shift < 64 ? shift : 63);
    if (byte < 128) return true;
  }
  return false;
}

inline std::vector<Field> fields_of(std::string_view in) {
  std::vector<Field> out;
  while (!in.empty()) {
    uint64_t tag = 0, size = 0;
    Field field;
    CHECK(read_varint(in, tag));
    field.id = static_cast<uint32_t>(tag >> 3);
    field.wire = static_cast<uint32_t>(tag & 7);
    switch (field.wire) {
      case 0:
        CHECK(read_varint(in, field.number));
        break;
      case 1:
        CHECK(in.size() >= 8);
        for (size_t i = 0; i < 8; ++i)
          field.number |= static_cast<uint64_t>(static_cast<unsigned char>(in[i])) << (8 * i);
        in.remove_prefix(8);
        break;
      case 2:
        CHECK(read_varint(in, size) && size <= in.size());
        field.bytes = in.substr(0, size);
        in.remove_prefix(size);
        break;
      default:
        CHECK(false);
        return out;
    }
    out.push_back(field);
  }
  return out;
}

}  // namespace protobuf_fields
