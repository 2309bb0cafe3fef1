// SPDX-License-Identifier: Apache-2.0
// Compile-time check of payload_abi.hpp. Not part of any library: a test compiles it against
// NVIDIA's headers where they are installed.
#include <nvtx3/nvToolsExtPayload.h>

#include <cstddef>

#include "backends/nvtx/payload_abi.hpp"

namespace ours = fastprof::nvtx;

#define SAME_NUMBER(own, theirs) \
  static_assert(static_cast<long long>(own) == static_cast<long long>(theirs), #theirs)
#define SAME_CALL(own, theirs) SAME_NUMBER(ours::extension::own, NVTX3EXT_CBID_##theirs)
#define SAME_TYPE(own, theirs) SAME_NUMBER(ours::entry_type::own, NVTX_PAYLOAD_ENTRY_TYPE_##theirs)
#define SAME_FLAG(own, theirs) SAME_NUMBER(ours::entry_flag::own, NVTX_PAYLOAD_ENTRY_FLAG_##theirs)
#define SAME_SIZE(own, theirs) static_assert(sizeof(ours::own) == sizeof(theirs), #theirs)
#define SAME_FIELD(own_type, own, type, field)                                             \
  static_assert(offsetof(ours::own_type, own) == offsetof(type, field), #type "." #field); \
  static_assert(sizeof(ours::own_type::own) == sizeof(type::field), #type "." #field)

SAME_NUMBER(ours::kPayloadModule, NVTX_EXT_PAYLOAD_MODULEID);
SAME_NUMBER(ours::kExtendedPayload, NVTX_PAYLOAD_TYPE_EXT);
SAME_NUMBER(ours::kFirstStaticSchema, NVTX_PAYLOAD_SCHEMA_ID_STATIC_START);
SAME_NUMBER(ours::kFirstDynamicSchema, NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
SAME_CALL(SchemaRegister, nvtxPayloadSchemaRegister);
SAME_CALL(EnumRegister, nvtxPayloadEnumRegister);
SAME_CALL(MarkPayload, nvtxMarkPayload);
SAME_CALL(RangePushPayload, nvtxRangePushPayload);
SAME_CALL(RangePopPayload, nvtxRangePopPayload);
SAME_CALL(RangeStartPayload, nvtxRangeStartPayload);
SAME_CALL(RangeEndPayload, nvtxRangeEndPayload);
SAME_CALL(DomainIsEnabled, nvtxDomainIsEnabled);
SAME_FLAG(pointer, POINTER);
SAME_FLAG(offset_from_base, OFFSET_FROM_BASE);
SAME_FLAG(offset_from_here, OFFSET_FROM_HERE);
SAME_FLAG(fixed_array, ARRAY_FIXED_SIZE);
SAME_FLAG(zero_terminated, ARRAY_ZERO_TERMINATED);
SAME_FLAG(length_index, ARRAY_LENGTH_INDEX);
SAME_FLAG(length_payload_index, ARRAY_LENGTH_PAYLOAD_INDEX);
SAME_FLAG(hide, HIDE);
SAME_FLAG(message, EVENT_MESSAGE);
SAME_TYPE(character, CHAR);
SAME_TYPE(uchar, UCHAR);
SAME_TYPE(short_, SHORT);
SAME_TYPE(ushort, USHORT);
SAME_TYPE(int_, INT);
SAME_TYPE(uint, UINT);
SAME_TYPE(long_, LONG);
SAME_TYPE(ulong, ULONG);
SAME_TYPE(longlong, LONGLONG);
SAME_TYPE(ulonglong, ULONGLONG);
SAME_TYPE(int8, INT8);
SAME_TYPE(uint8, UINT8);
SAME_TYPE(int16, INT16);
SAME_TYPE(uint16, UINT16);
SAME_TYPE(int32, INT32);
SAME_TYPE(uint32, UINT32);
SAME_TYPE(int64, INT64);
SAME_TYPE(uint64, UINT64);
SAME_TYPE(float_, FLOAT);
SAME_TYPE(double_, DOUBLE);
SAME_TYPE(long_double, LONGDOUBLE);
SAME_TYPE(size, SIZE);
SAME_TYPE(address, ADDRESS);
SAME_TYPE(wchar, WCHAR);
SAME_TYPE(char8, CHAR8);
SAME_TYPE(char16, CHAR16);
SAME_TYPE(char32, CHAR32);
SAME_TYPE(byte, BYTE);
SAME_TYPE(float32, FLOAT32);
SAME_TYPE(float64, FLOAT64);
SAME_TYPE(category, CATEGORY);
SAME_TYPE(color, COLOR_ARGB);
SAME_TYPE(scope, SCOPE_ID);
SAME_TYPE(pid32, PID_UINT32);
SAME_TYPE(pid64, PID_UINT64);
SAME_TYPE(tid32, TID_UINT32);
SAME_TYPE(tid64, TID_UINT64);
SAME_TYPE(text, CSTRING);
SAME_TYPE(text8, CSTRING_UTF8);
SAME_TYPE(text16, CSTRING_UTF16);
SAME_TYPE(text32, CSTRING_UTF32);
SAME_TYPE(registered_text, NVTX_REGISTERED_STRING_HANDLE);
SAME_NUMBER(ours::entry_type::referenced, NVTX_TYPE_PAYLOAD_SCHEMA_REFERENCED);
SAME_NUMBER(ours::entry_type::raw, NVTX_TYPE_PAYLOAD_SCHEMA_RAW);
SAME_NUMBER(ours::schema_type::fixed, NVTX_PAYLOAD_SCHEMA_TYPE_STATIC);
SAME_NUMBER(ours::schema_type::dynamic, NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC);
SAME_NUMBER(ours::schema_type::union_, NVTX_PAYLOAD_SCHEMA_TYPE_UNION);
SAME_NUMBER(ours::schema_type::union_with_selector,
            NVTX_PAYLOAD_SCHEMA_TYPE_UNION_WITH_INTERNAL_SELECTOR);
SAME_NUMBER(ours::schema_field::name, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME);
SAME_NUMBER(ours::schema_field::type, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE);
SAME_NUMBER(ours::schema_field::entries, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES);
SAME_NUMBER(ours::schema_field::count, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES);
SAME_NUMBER(ours::schema_field::static_size, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE);
SAME_NUMBER(ours::schema_field::alignment, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT);
SAME_NUMBER(ours::schema_field::id, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID);
SAME_NUMBER(ours::enum_field::name, NVTX_PAYLOAD_ENUM_ATTR_FIELD_NAME);
SAME_NUMBER(ours::enum_field::entries, NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES);
SAME_NUMBER(ours::enum_field::count, NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES);
SAME_NUMBER(ours::enum_field::size, NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE);
SAME_NUMBER(ours::enum_field::id, NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID);

SAME_SIZE(ExtensionSegment, nvtxExtModuleSegment_t);
SAME_FIELD(ExtensionSegment, slots, nvtxExtModuleSegment_t, functionSlots);
SAME_FIELD(ExtensionSegment, slot_count, nvtxExtModuleSegment_t, slotCount);
SAME_SIZE(ExtensionModule, nvtxExtModuleInfo_t);
SAME_FIELD(ExtensionModule, struct_size, nvtxExtModuleInfo_t, structSize);
SAME_FIELD(ExtensionModule, module_id, nvtxExtModuleInfo_t, moduleId);
SAME_FIELD(ExtensionModule, segment_count, nvtxExtModuleInfo_t, segmentsCount);
SAME_FIELD(ExtensionModule, segments, nvtxExtModuleInfo_t, segments);
SAME_SIZE(PayloadData, nvtxPayloadData_t);
SAME_FIELD(PayloadData, schema, nvtxPayloadData_t, schemaId);
SAME_FIELD(PayloadData, size, nvtxPayloadData_t, size);
SAME_FIELD(PayloadData, payload, nvtxPayloadData_t, payload);
SAME_SIZE(SchemaEntry, nvtxPayloadSchemaEntry_t);
SAME_FIELD(SchemaEntry, flags, nvtxPayloadSchemaEntry_t, flags);
SAME_FIELD(SchemaEntry, type, nvtxPayloadSchemaEntry_t, type);
SAME_FIELD(SchemaEntry, name, nvtxPayloadSchemaEntry_t, name);
SAME_FIELD(SchemaEntry, detail, nvtxPayloadSchemaEntry_t, arrayOrUnionDetail);
SAME_FIELD(SchemaEntry, offset, nvtxPayloadSchemaEntry_t, offset);
SAME_SIZE(SchemaAttributes, nvtxPayloadSchemaAttr_t);
SAME_FIELD(SchemaAttributes, fields, nvtxPayloadSchemaAttr_t, fieldMask);
SAME_FIELD(SchemaAttributes, name, nvtxPayloadSchemaAttr_t, name);
SAME_FIELD(SchemaAttributes, type, nvtxPayloadSchemaAttr_t, type);
SAME_FIELD(SchemaAttributes, entries, nvtxPayloadSchemaAttr_t, entries);
SAME_FIELD(SchemaAttributes, count, nvtxPayloadSchemaAttr_t, numEntries);
SAME_FIELD(SchemaAttributes, static_size, nvtxPayloadSchemaAttr_t, payloadStaticSize);
SAME_FIELD(SchemaAttributes, alignment, nvtxPayloadSchemaAttr_t, packAlign);
SAME_FIELD(SchemaAttributes, id, nvtxPayloadSchemaAttr_t, schemaId);
SAME_SIZE(EnumEntry, nvtxPayloadEnum_t);
SAME_FIELD(EnumEntry, value, nvtxPayloadEnum_t, value);
SAME_FIELD(EnumEntry, is_flag, nvtxPayloadEnum_t, isFlag);
SAME_SIZE(EnumAttributes, nvtxPayloadEnumAttr_t);
SAME_FIELD(EnumAttributes, entries, nvtxPayloadEnumAttr_t, entries);
SAME_FIELD(EnumAttributes, count, nvtxPayloadEnumAttr_t, numEntries);
SAME_FIELD(EnumAttributes, size, nvtxPayloadEnumAttr_t, sizeOfEnum);
SAME_FIELD(EnumAttributes, id, nvtxPayloadEnumAttr_t, schemaId);

int main() {}
