// SPDX-License-Identifier: Apache-2.0
// Compile-time check of itt_abi.hpp against the structs that Intel's header declares. Not part of
// any library: a test compiles it where the header is installed (torch's wheels contain it).
#include <ittnotify.h>

#include <cstddef>

#include "backends/itt/itt_abi.hpp"

namespace ours = fastprof::itt;

#define SAME_NUMBER(own, theirs) \
  static_assert(static_cast<long long>(own) == static_cast<long long>(theirs), #theirs)
#define SAME_FIELD(own_type, own, type, field)                                       \
  static_assert(offsetof(own_type, own) == offsetof(type, field), #type "." #field); \
  static_assert(sizeof(own_type::own) == sizeof(type::field), #type "." #field)

static_assert(sizeof(ours::Domain) == sizeof(__itt_domain));
SAME_FIELD(ours::Domain, flags, __itt_domain, flags);
SAME_FIELD(ours::Domain, name, __itt_domain, nameA);
SAME_FIELD(ours::Domain, extra2, __itt_domain, extra2);
SAME_FIELD(ours::Domain, next, __itt_domain, next);
static_assert(sizeof(ours::StringHandle) == sizeof(__itt_string_handle));
SAME_FIELD(ours::StringHandle, text, __itt_string_handle, strA);
SAME_FIELD(ours::StringHandle, next, __itt_string_handle, next);
static_assert(sizeof(ours::Id) == sizeof(__itt_id));
SAME_FIELD(ours::Id, d3, __itt_id, d3);
SAME_NUMBER(ours::ValueType::uint64, __itt_metadata_u64);
SAME_NUMBER(ours::ValueType::int64, __itt_metadata_s64);
SAME_NUMBER(ours::ValueType::uint32, __itt_metadata_u32);
SAME_NUMBER(ours::ValueType::int32, __itt_metadata_s32);
SAME_NUMBER(ours::ValueType::uint16, __itt_metadata_u16);
SAME_NUMBER(ours::ValueType::int16, __itt_metadata_s16);
SAME_NUMBER(ours::ValueType::float32, __itt_metadata_float);
SAME_NUMBER(ours::ValueType::float64, __itt_metadata_double);

int main() {}
