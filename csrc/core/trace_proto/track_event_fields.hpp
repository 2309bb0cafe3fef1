// SPDX-License-Identifier: Apache-2.0
// Field numbers of Perfetto's trace format that are read here and not written by fastprof (the
// others: fastprof/export/perfetto_fields.hpp). Source: protos/perfetto/trace/*.proto of the
// Perfetto project; numbers of published fields never change.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/export/perfetto_fields.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_proto {
namespace field {

// TracePacket
constexpr uint32_t trusted_uid = 3;
constexpr uint32_t trusted_pid = 79;
// TrackEvent
constexpr uint32_t categories = 22;
// DebugAnnotation
constexpr uint32_t dict_entries = 11;
constexpr uint32_t string_value_iid = 17;

}  // namespace field
}  // namespace trace_proto
FASTPROF_NAMESPACE_END
