// SPDX-License-Identifier: Apache-2.0
// The binary interface of NVTX's extension for payloads (schemas), declared by us.
// tests/abi compares it with NVIDIA's headers. Source of the format: the public headers
// nvToolsExtPayload.h and nvtxDetail/nvtxExtTypes.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {

constexpr uint16_t kPayloadModule = 2;
// EventAttributes::payload_type of an event with PayloadData; `reserved` is their number.
constexpr int32_t kExtendedPayload = static_cast<int32_t>(0xDFBD0009);

// Functions of the extension, as indices of the slots that a tool fills in.
namespace extension {
enum Id : uint32_t {
  SchemaRegister = 0,
  EnumRegister = 1,
  MarkPayload = 2,
  RangePushPayload = 3,
  RangePopPayload = 4,
  RangeStartPayload = 5,
  RangeEndPayload = 6,
  DomainIsEnabled = 7,
};
}  // namespace extension

struct ExtensionSegment {
  size_t id;
  size_t slot_count;
  intptr_t* slots;
};
struct ExtensionModule {
  uint16_t nvtx_version;
  uint16_t struct_size;
  uint16_t module_id;
  uint16_t compatibility_id;
  size_t segment_count;
  ExtensionSegment* segments;
  intptr_t (*get_export_function)(uint32_t id);
  const void* info;
};

namespace entry_flag {
constexpr uint64_t pointer = 1u << 1, offset_from_base = 1u << 2, offset_from_here = 1u << 3,
                   array_mask = 7u << 4, fixed_array = 1u << 4, zero_terminated = 2u << 4,
                   length_index = 3u << 4, length_payload_index = 4u << 4, hide = 1u << 9,
                   message = 1u << 10;
}

namespace entry_type {
constexpr uint64_t character = 1, uchar = 2, short_ = 3, ushort = 4, int_ = 5, uint = 6, long_ = 7,
                   ulong = 8, longlong = 9, ulonglong = 10, int8 = 11, uint8 = 12, int16 = 13,
                   uint16 = 14, int32 = 15, uint32 = 16, int64 = 17, uint64 = 18, float_ = 19,
                   double_ = 20, long_double = 21, size = 22, address = 23, wchar = 24, char8 = 25,
                   char16 = 26, char32 = 27, byte = 32, float32 = 43, float64 = 44, category = 68,
                   color = 69, scope = 70, pid32 = 71, pid64 = 72, tid32 = 73, tid64 = 74,
                   text = 75, text8 = 76, text16 = 77, text32 = 78, registered_text = 80,
                   referenced = 1022, raw = 1023;
}
constexpr uint64_t kFirstStaticSchema = 1u << 24, kFirstDynamicSchema = uint64_t{1} << 32;

namespace schema_type {
constexpr uint64_t fixed = 1, dynamic = 2, union_ = 3, union_with_selector = 4;
}
namespace schema_field {
constexpr uint64_t name = 1u << 1, type = 1u << 2, entries = 1u << 4, count = 1u << 5,
                   static_size = 1u << 6, alignment = 1u << 7, id = 1u << 8;
}
namespace enum_field {
constexpr uint64_t name = 1u << 1, entries = 1u << 2, count = 1u << 3, size = 1u << 4, id = 1u << 5;
}

struct PayloadData {
  uint64_t schema;
  size_t size;  // in bytes; SIZE_MAX: given by the schema
  const void* payload;
};
struct SchemaEntry {
  uint64_t flags;
  uint64_t type;
  const char* name;
  const char* description;
  uint64_t detail;  // length of an array or text, or index of the entry that holds it
  uint64_t offset;  // in bytes; 0: after the previous entry, aligned
  const void* semantics;
  const void* reserved;
};
struct SchemaAttributes {
  uint64_t fields;
  const char* name;
  uint64_t type;
  uint64_t flags;
  const SchemaEntry* entries;
  size_t count;
  size_t static_size;
  size_t alignment;
  uint64_t id;
  void* extension;
};
struct EnumEntry {
  const char* name;
  uint64_t value;
  int8_t is_flag;
};
struct EnumAttributes {
  uint64_t fields;
  const char* name;
  const EnumEntry* entries;
  size_t count;
  size_t size;
  uint64_t id;
  void* extension;
};

}  // namespace nvtx
FASTPROF_NAMESPACE_END
