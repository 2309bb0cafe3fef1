// SPDX-License-Identifier: Apache-2.0
// PerfettoPackets: writes the packets of a Perfetto trace; those of events as few bytes as
// possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/export/byte_buffer.hpp"
#include "fastprof/export/perfetto_fields.hpp"
#include "fastprof/export/protobuf.hpp"

FASTPROF_NAMESPACE_BEGIN

// Of one file.
class PerfettoPackets {
 public:
  explicit PerfettoPackets(ByteBuffer& out) : out_(out) {}

  // Writes a packet of any kind.
  void write(const ProtoMessage& packet) {
    char head[1 + kMaxVarintBytes];
    head[0] = perfetto::trace::packet << 3 | 2;
    out_.append(head, static_cast<size_t>(put_varint(head + 1, packet.size()) - head));
    out_.append(packet.encoded());
  }

  // Begins the events of a packet sequence, whose clock starts at `start_ns`.
  void begin_sequence(uint64_t sequence, int64_t start_ns) {
    using namespace perfetto;
    last_ns_ = start_ns;
    tail_ = ProtoMessage()
                .number(trace_packet::trusted_packet_sequence_id, sequence)
                .number(trace_packet::sequence_flags, trace_packet::needs_incremental_state)
                .encoded();
    tail_block_ = ByteBlock(tail_);
  }

  // Writes a packet {timestamp, `event` (an encoded field), sequence id and flags}: about 15 bytes,
  // so that its length fits in one byte.
  FASTPROF_ALWAYS_INLINE void write_event(int64_t time_ns, const ByteBlock& event) {
    char* const start = out_.room(ByteBuffer::kMinRoom);
    start[0] = perfetto::trace::packet << 3 | 2;
    start[2] = perfetto::trace_packet::timestamp << 3;
    char* at = put_varint(start + 3, take_delta(time_ns));
    at = tail_block_.copy(event.copy(at));
    start[1] = static_cast<char>(at - (start + 2));
    out_.advance(at);
  }
  // As write_event, for the content of a track event of any length.
  void write_long_event(int64_t time_ns, const ProtoMessage& event) {
    using namespace perfetto;
    packet_.clear();
    packet_.number(trace_packet::timestamp, take_delta(time_ns))
        .message(trace_packet::track_event, event)
        .raw(tail_);
    write(packet_);
  }

 private:
  // Returns the nanoseconds since the previous packet; >= 0 within a lane of a validated capture.
  FASTPROF_ALWAYS_INLINE uint64_t take_delta(int64_t time_ns) noexcept {
    const int64_t delta = time_ns - last_ns_;
    last_ns_ = time_ns;
    return static_cast<uint64_t>(delta);
  }

  ByteBuffer& out_;
  int64_t last_ns_ = 0;
  std::string tail_;  // sequence id and flags, the end of each event's packet
  ByteBlock tail_block_;
  ProtoMessage packet_;
};

FASTPROF_NAMESPACE_END
