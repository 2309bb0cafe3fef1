// SPDX-License-Identifier: Apache-2.0
// Binary serialisation of events and profiler configurations, for transfer between processes. All
// integers are little-endian.
//
//   events, version 1
//     8  "FPLEVT\r\n"
//     4  version
//     4  number of lists
//     8  bytes that follow
//   each list
//     8  bytes of the list after this word
//     8  number of events
//   each event
//     4  bytes of the event after this word
//     4  kind, scope, bits (1: async, 2: device event), zero: one each
//     8  each of: thread id, handle, node id, cpu_ns, cpu memory, device memory
//     4  device index
//     8  each of: device_us, sequence number, forward thread, flops
//     4  length of the name, then its bytes
//     4  number of shapes; each 4 (number of dimensions), then 8 per dimension
//     4  number of stack frames; each 4 (length), then its bytes
//
//   configuration, version 1
//     8  "FPLCFG\r\n"
//     4  version
//     1  state (0 to 5)
//     1  bits: shapes, memory, stack, flops, modules
//     4  length of trace_id, then its bytes
//
// Released versions never change; a reader accepts all versions up to its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/legacy/byte_stream.hpp"
#include "fastprof/legacy/device_times.hpp"
#include "fastprof/legacy/legacy_event.hpp"
#include "fastprof/legacy/profiler_config.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr uint32_t kEventBytesVersion = 1;
constexpr uint32_t kConfigBytesVersion = 1;
// Default size limit of decoding. Decoded events take at most eight times the encoded bytes; the
// worst case is a list of empty stack frames, 4 bytes each.
constexpr size_t kMaxEventBytes = size_t{1} << 30;

namespace legacy_detail {

constexpr std::string_view kEventMagic{"FPLEVT\r\n", 8};
constexpr std::string_view kConfigMagic{"FPLCFG\r\n", 8};
constexpr uint8_t kAsyncBit = 1;
constexpr uint8_t kDeviceBit = 2;
constexpr size_t kListBytes = 16;    // size of an empty list
constexpr size_t kEventBytes = 104;  // size of an event without name, shapes and stack
static_assert(sizeof(LegacyEvent) <= 8 * kEventBytes, "the bound on decoded memory");
#if !defined(_GLIBCXX_DEBUG)  // whose containers are larger, and the memory with them
static_assert(sizeof(std::string) <= 8 * 4 && sizeof(std::vector<int64_t>) <= 8 * 4,
              "an empty frame or shape is 4 bytes of the encoded ones");
#endif

inline void encode_event(ByteWriter* to, const LegacyEvent& event, int64_t device_us) {
  const size_t length_at = to->offset();
  to->u32(0);
  const bool device = event.has_device_event();
  to->u8(static_cast<uint8_t>(event.kind));
  to->u8(static_cast<uint8_t>(event.scope));
  to->u8(static_cast<uint8_t>((event.is_async ? kAsyncBit : 0) | (device ? kDeviceBit : 0)));
  to->u8(0);
  to->u64(event.thread_id);
  to->u64(event.handle);
  to->i64(event.node_id);
  to->i64(event.cpu_ns);
  to->i64(event.cpu_memory_bytes);
  to->i64(event.device_memory_bytes);
  to->i32(device ? event.device_index : -1);
  to->i64(device ? device_us : -1);
  to->i64(event.sequence_nr);
  to->u64(event.forward_thread_id);
  to->u64(event.flops);
  to->text(event.name);
  to->u32(static_cast<uint32_t>(event.shapes.size()));
  for (const std::vector<int64_t>& shape : event.shapes) {
    to->u32(static_cast<uint32_t>(shape.size()));
    for (const int64_t size : shape) to->i64(size);
  }
  to->u32(static_cast<uint32_t>(event.stack.size()));
  for (const std::string& frame : event.stack) to->text(frame);
  to->patch_u32(length_at, static_cast<uint32_t>(to->offset() - length_at - 4));
}

// Returns why an event cannot be sent or accepted, or null if it can.
inline const char* event_fault(int64_t cpu_ns, bool device, int32_t device_index,
                               int64_t device_us) {
  if (cpu_ns <= 0) return "cpu_ns must be greater than 0";
  if (device && device_index < 0)
    return "an event with a device event needs a device index of 0 or more";
  if (device && device_us < 0) return "an event with a device event needs device_us of 0 or more";
  return nullptr;
}

inline LegacyEvent decode_event(ByteReader* from) {
  LegacyEvent event;
  event.is_remote = true;
  const size_t outer = from->enter(from->u32(), "an event");
  const uint8_t kind = from->u8();
  if (kind >= kNumLegacyEventKinds) from->fail("unknown event kind " + std::to_string(kind));
  const uint8_t scope = from->u8();
  if (scope >= kNumRecordScopes) from->fail("unknown record scope " + std::to_string(scope));
  const uint8_t bits = from->u8();
  if ((bits & ~(kAsyncBit | kDeviceBit)) != 0)
    from->fail("unknown event bits " + std::to_string(bits));
  if (from->u8() != 0) from->fail("a reserved byte is not 0");
  event.kind = static_cast<LegacyEventKind>(kind);
  event.scope = static_cast<RecordScope>(scope);
  event.is_async = (bits & kAsyncBit) != 0;
  event.thread_id = from->u64();
  event.handle = from->u64();
  event.node_id = from->i64();
  event.cpu_ns = from->i64();
  event.cpu_memory_bytes = from->i64();
  event.device_memory_bytes = from->i64();
  event.device_index = from->i32();
  event.device_us = from->i64();
  const bool device = (bits & kDeviceBit) != 0;
  if (!from->failed()) {
    if (const char* fault = event_fault(event.cpu_ns, device, event.device_index, event.device_us))
      from->fail(fault);
    if (!device && (event.device_index != -1 || event.device_us != -1))
      from->fail("an event without a device event has a device index or a device time");
  }
  event.sequence_nr = from->i64();
  event.forward_thread_id = from->u64();
  event.flops = from->u64();
  event.name = std::string(from->text());
  const uint64_t shapes = from->count(from->u32(), 4, "shapes");
  event.shapes.reserve(static_cast<size_t>(shapes));
  for (uint64_t i = 0; i < shapes && !from->failed(); ++i) {
    const uint64_t dimensions = from->count(from->u32(), 8, "dimensions");
    std::vector<int64_t>& shape = event.shapes.emplace_back();
    shape.reserve(static_cast<size_t>(dimensions));
    for (uint64_t d = 0; d < dimensions; ++d) shape.push_back(from->i64());
  }
  const uint64_t frames = from->count(from->u32(), 4, "frames");
  event.stack.reserve(static_cast<size_t>(frames));
  for (uint64_t i = 0; i < frames && !from->failed(); ++i) event.stack.emplace_back(from->text());
  from->leave(outer, "the event");
  return event;
}

// Reads magic and version. Returns false, and records the failure, if they are not supported.
inline bool read_header(ByteReader* from, std::string_view magic, uint32_t newest) {
  if (from->next(magic.size()) != magic) {
    from->fail("the magic is missing; these bytes were not written by fastprof");
    return false;
  }
  from->raw(magic.size());
  const uint32_t version = from->u32();
  if (from->failed()) return false;
  if (version == 0) from->fail("version 0 does not exist");
  if (version > newest)
    from->fail("version " + std::to_string(version) + " is newer than version " +
               std::to_string(newest) + ", the newest this fastprof reads; update fastprof here");
  return !from->failed();
}

}  // namespace legacy_detail

// Serialises `lists`. The device event of a local event is sent as us since the first device event
// of its device in `lists`, which requires waiting for the device. Raises ValueError for an event
// that no receiver would accept (cpu_ns <= 0, negative device index or device_us) or that exceeds 4
// GiB. Any thread; `lists` must not change during the call.
inline std::string encode_event_lists(const LegacyEventLists& lists) {
  std::string bytes;
  size_t events = 0;
  for (const LegacyEventList& list : lists) events += list.size();
  bytes.reserve(64 + events * (legacy_detail::kEventBytes + 16));
  ByteWriter to(&bytes);
  to.raw(legacy_detail::kEventMagic);
  to.u32(kEventBytesVersion);
  to.u32(static_cast<uint32_t>(lists.size()));
  const size_t length_at = to.offset();
  to.u64(0);
  DeviceTimes device_times;
  for (const LegacyEventList& list : lists) {
    const size_t list_at = to.offset();
    to.u64(0);
    to.u64(list.size());
    for (const LegacyEvent& event : list) {
      const int64_t device_us = device_times.device_us(event);
      if (const char* fault = legacy_detail::event_fault(event.cpu_ns, event.has_device_event(),
                                                         event.device_index, device_us))
        raise<ValueError>("event '" + event.name + "' cannot be serialised: " + fault);
      const size_t event_at = to.offset();
      legacy_detail::encode_event(&to, event, device_us);
      if (to.offset() - event_at > std::numeric_limits<uint32_t>::max())
        raise<ValueError>("event '" + event.name.substr(0, 64) +
                          "' cannot be serialised: it takes more than 4 GiB");
    }
    to.patch_u64(list_at, to.offset() - list_at - 8);
  }
  to.patch_u64(length_at, to.offset() - length_at - 8);
  return bytes;
}

// Decodes the output of encode_event_lists into `lists`; all events are marked remote. `bytes` is
// untrusted: if it is malformed or longer than max_bytes, returns false, empties `lists` and stores
// the reason and byte offset in `error`. Uses at most about eight times the size of `bytes`. Any
// thread.
inline bool try_decode_event_lists(std::string_view bytes, LegacyEventLists* lists,
                                   std::string* error, size_t max_bytes = kMaxEventBytes) {
  using namespace legacy_detail;
  lists->clear();
  ByteReader from(bytes, "remote events");
  if (bytes.size() > max_bytes)
    from.fail(std::to_string(bytes.size()) + " bytes are more than the " +
              std::to_string(max_bytes) + " that are accepted");
  if (!from.failed() && read_header(&from, kEventMagic, kEventBytesVersion)) {
    const uint32_t list_count = from.u32();
    const size_t all = from.enter(from.u64(), "the payload");
    const uint64_t count = from.count(list_count, kListBytes, "lists");
    lists->reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count && !from.failed(); ++i) {
      const size_t outer = from.enter(from.u64(), "a list");
      const uint64_t events = from.count(from.u64(), kEventBytes, "events");
      LegacyEventList& list = lists->emplace_back();
      list.reserve(static_cast<size_t>(events));
      for (uint64_t e = 0; e < events && !from.failed(); ++e) list.push_back(decode_event(&from));
      from.leave(outer, "the list");
    }
    from.leave(all, "the payload");
    if (!from.failed() && from.left() != 0)
      from.fail(std::to_string(from.left()) + " bytes follow the payload");
  }
  if (!from.failed()) return true;
  lists->clear();
  *error = from.error();
  return false;
}

// As try_decode_event_lists, but raises FormatError.
inline LegacyEventLists decode_event_lists(std::string_view bytes,
                                           size_t max_bytes = kMaxEventBytes) {
  LegacyEventLists lists;
  std::string error;
  if (!try_decode_event_lists(bytes, &lists, &error, max_bytes)) raise<FormatError>(error);
  return lists;
}

// Serialises a configuration, for a process that profiles on behalf of another. Raises ValueError
// for a state that the exclusive profiler does not support (KINETO states).
inline std::string encode_profiler_config(const ProfilerConfig& config) {
  if (config.state > ProfilerState::PRIVATEUSE1)
    raise<ValueError>(std::string("state ") + profiler_state_name(config.state) +
                      " cannot be serialised: the exclusive profiler does not run it");
  std::string bytes;
  ByteWriter to(&bytes);
  to.raw(legacy_detail::kConfigMagic);
  to.u32(kConfigBytesVersion);
  to.u8(static_cast<uint8_t>(config.state));
  to.u8(static_cast<uint8_t>((config.report_input_shapes ? 1 : 0) |
                             (config.profile_memory ? 2 : 0) | (config.with_stack ? 4 : 0) |
                             (config.with_flops ? 8 : 0) | (config.with_modules ? 16 : 0)));
  to.text(config.trace_id);
  return bytes;
}

// Decodes the output of encode_profiler_config. Raises FormatError, naming the byte offset, if it
// is malformed.
inline ProfilerConfig decode_profiler_config(std::string_view bytes) {
  using namespace legacy_detail;
  ByteReader from(bytes, "profiler configuration");
  ProfilerConfig config;
  if (read_header(&from, kConfigMagic, kConfigBytesVersion)) {
    const uint8_t state = from.u8();
    if (state > static_cast<uint8_t>(ProfilerState::PRIVATEUSE1))
      from.fail("unknown profiler state " + std::to_string(state));
    const uint8_t bits = from.u8();
    if (bits > 31) from.fail("unknown option bits " + std::to_string(bits));
    config.state = static_cast<ProfilerState>(state);
    config.report_input_shapes = (bits & 1) != 0;
    config.profile_memory = (bits & 2) != 0;
    config.with_stack = (bits & 4) != 0;
    config.with_flops = (bits & 8) != 0;
    config.with_modules = (bits & 16) != 0;
    config.trace_id = std::string(from.text());
    if (!from.failed() && from.left() != 0)
      from.fail(std::to_string(from.left()) + " bytes follow the configuration");
  }
  if (from.failed()) raise<FormatError>(from.error());
  return config;
}

FASTPROF_NAMESPACE_END
