// SPDX-License-Identifier: Apache-2.0
// Field numbers of Perfetto's trace format, as far as the writer or the native reader uses them.
// Source: protos/perfetto/trace/*.proto of the Perfetto project; numbers of published fields never
// change.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace perfetto {

namespace trace {
constexpr uint32_t packet = 1;
}
namespace trace_packet {
constexpr uint32_t trusted_uid = 3;
constexpr uint32_t clock_snapshot = 6;
constexpr uint32_t timestamp = 8;
constexpr uint32_t trusted_packet_sequence_id = 10;
constexpr uint32_t track_event = 11;
constexpr uint32_t interned_data = 12;
constexpr uint32_t sequence_flags = 13;
constexpr uint32_t timestamp_clock_id = 58;
constexpr uint32_t trace_packet_defaults = 59;
constexpr uint32_t track_descriptor = 60;
constexpr uint32_t service_event = 69;
constexpr uint32_t trusted_pid = 79;
constexpr uint64_t incremental_state_cleared = 1;  // bits of sequence_flags
constexpr uint64_t needs_incremental_state = 2;
}  // namespace trace_packet
namespace tracing_service_event {
constexpr uint32_t tracing_disabled = 5;
}
namespace trace_packet_defaults {
constexpr uint32_t track_event_defaults = 11;
constexpr uint32_t timestamp_clock_id = 58;
}  // namespace trace_packet_defaults
namespace track_event_defaults {
constexpr uint32_t track_uuid = 11;
}
namespace clock_snapshot {
constexpr uint32_t clocks = 1;
constexpr uint32_t primary_trace_clock = 2;
constexpr uint64_t realtime = 1;            // BUILTIN_CLOCK_REALTIME: Unix time
constexpr uint64_t first_of_sequence = 64;  // 64 to 127 are local to a sequence
}  // namespace clock_snapshot
namespace clock {
constexpr uint32_t clock_id = 1;
constexpr uint32_t timestamp = 2;
constexpr uint32_t is_incremental = 3;
}  // namespace clock
namespace track_descriptor {
constexpr uint32_t uuid = 1;
constexpr uint32_t name = 2;
constexpr uint32_t process = 3;
constexpr uint32_t thread = 4;
constexpr uint32_t parent_uuid = 5;
constexpr uint32_t counter = 8;
}  // namespace track_descriptor
namespace process_descriptor {
constexpr uint32_t pid = 1;
constexpr uint32_t process_name = 6;
}  // namespace process_descriptor
namespace thread_descriptor {
constexpr uint32_t pid = 1;
constexpr uint32_t tid = 2;
constexpr uint32_t thread_name = 5;
}  // namespace thread_descriptor
namespace track_event {
constexpr uint32_t category_iids = 3;
constexpr uint32_t debug_annotations = 4;
constexpr uint32_t type = 9;
constexpr uint32_t name_iid = 10;
constexpr uint32_t track_uuid = 11;
constexpr uint32_t categories = 22;
constexpr uint32_t name = 23;
constexpr uint32_t counter_value = 30;
constexpr uint32_t source_location_iid = 34;
constexpr uint32_t double_counter_value = 44;
constexpr uint32_t flow_ids = 47;              // fixed64
constexpr uint32_t terminating_flow_ids = 48;  // fixed64
constexpr uint64_t slice_begin = 1;            // values of type
constexpr uint64_t slice_end = 2;
constexpr uint64_t instant = 3;
constexpr uint64_t counter = 4;
}  // namespace track_event
namespace debug_annotation {
constexpr uint32_t name_iid = 1;
constexpr uint32_t bool_value = 2;
constexpr uint32_t uint_value = 3;
constexpr uint32_t int_value = 4;
constexpr uint32_t double_value = 5;
constexpr uint32_t string_value = 6;
constexpr uint32_t pointer_value = 7;
constexpr uint32_t legacy_json_value = 9;
constexpr uint32_t name = 10;
constexpr uint32_t dict_entries = 11;
constexpr uint32_t array_values = 12;
constexpr uint32_t string_value_iid = 17;
}  // namespace debug_annotation
namespace interned_data {
constexpr uint32_t event_categories = 1;
constexpr uint32_t event_names = 2;
constexpr uint32_t debug_annotation_names = 3;
constexpr uint32_t source_locations = 4;
}  // namespace interned_data
namespace interned {  // EventCategory, EventName, DebugAnnotationName
constexpr uint32_t iid = 1;
constexpr uint32_t name = 2;
}  // namespace interned
namespace source_location {
constexpr uint32_t iid = 1;
constexpr uint32_t file_name = 2;
constexpr uint32_t function_name = 3;
constexpr uint32_t line_number = 4;
}  // namespace source_location

}  // namespace perfetto

FASTPROF_NAMESPACE_END
