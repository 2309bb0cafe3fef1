// SPDX-License-Identifier: Apache-2.0
// PacketScanner: reads the packets of a Perfetto trace that contain a common track event (a begin,
// an end, an instant or a counter with names, args and flows) into columns, and pairs begins with
// ends. All other packets are left to the caller, who then updates the state here that later
// packets refer to. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/trace_proto/sequence_state.hpp"
#include "core/trace_proto/slice_stacks.hpp"
#include "core/trace_proto/wire.hpp"
#include "core/trace_rows/row_store.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_proto {

using trace_rows::Block;
using trace_rows::Member;

// Flows that rows take part in. steps: 0: passes through, 1: ends.
struct FlowColumns {
  Column<uint32_t> rows;
  Column<uint64_t> ids;
  Column<uint8_t> steps;
};

struct PacketBlock : Block {
  FlowColumns links;
};

// Sites have the phases of trace_rows::ScannedSite, and 'C' and 'D' for counters of integers and
// doubles, whose values are in Block::flow.
class PacketScanner {
 public:
  PacketScanner(trace_rows::Conventions conventions, bool is_sorted);

  // Scans packets from data, which begins with one. first_row: index in the table of the block's
  // first row. Stops after the first packet that is left to the caller. Refuses anything that is
  // not a packet of at most max_packet_bytes.
  PacketBlock scan(std::string_view data, uint32_t first_row, uint64_t max_packet_bytes);

  trace_rows::RowStore& store() noexcept { return store_; }
  const trace_rows::RowStore& store() const noexcept { return store_; }
  SliceStacks& stacks() noexcept { return stacks_; }
  // Returns the code of a text's JSON; invalid UTF-8 is replaced by the empty text.
  uint32_t text_code(std::string_view text);

  // The state that packets refer to.
  SequenceState& sequence(uint64_t id) { return sequences_[id]; }
  void intern(uint64_t sequence, TextKind kind, uint64_t iid, std::string_view text);
  void set_place(uint64_t uuid, Place place) { places_[uuid] = place; }
  void set_counter(uint64_t uuid, std::string_view name, uint32_t track);
  void forget_counter(uint64_t uuid) { counters_.erase(uuid); }
  void set_clock(uint64_t key, const ClockState& clock) { clocks_[key] = clock; }
  // Returns the state of all clocks that count up from event to event.
  const std::unordered_map<uint64_t, ClockState>& clocks() const noexcept { return clocks_; }
  void forget_clocks() { clocks_.clear(); }
  // Declares the trace to be fastprof's own: some args encode a range's state, and instants with
  // flows are flow events.
  void set_own() noexcept { is_own_ = true; }
  size_t bytes() const noexcept;

 private:
  struct Packet {
    uint64_t timestamp = 0, sequence = 0, flags = 0, clock = 0;
    std::string_view event;
  };
  struct Event {
    uint64_t type = 0, name_iid = 0, track_uuid = 0, location_iid = 0, value = 0;
    std::string_view name;
    uint64_t seen = 0;  // one bit per field number below 64
    bool has_location = false, is_real = false, has_value = false, has_category = false;
  };

  bool read_packet(std::string_view message, Packet& packet);
  bool read_event(const SequenceState& sequence, std::string_view message, Event& event);
  bool add_annotation(const SequenceState& sequence, std::string_view message);
  bool add_member(std::string_view name, std::string_view value);
  bool add_spliced();
  bool add_packet(PacketBlock& block, std::string_view message, uint32_t first_row);
  bool add_counter(PacketBlock& block, const SequenceState& sequence, const Event& event,
                   ClockState& clock, uint64_t timestamp);
  const Place* place_of(const SequenceState& sequence, const Event& event) const;

  trace_rows::RowStore store_;
  uint32_t empty_;  // code of the empty text
  SliceStacks stacks_;
  bool is_own_ = false;
  std::unordered_map<uint64_t, SequenceState> sequences_;
  std::unordered_map<uint64_t, Place> places_;
  std::unordered_map<uint64_t, CounterTrack> counters_;
  std::unordered_map<uint64_t, ClockState> clocks_;
  size_t text_bytes_ = 0;
  // Of the event being read:
  std::vector<std::string> names_, values_;  // of annotations; only the first are in use
  std::vector<Member> members_;
  std::vector<std::pair<uint64_t, uint8_t>> flows_;
  std::string category_, name_;
  std::string spliced_;  // JSON of an arg of fastprof's own traces, whose members are args
};

}  // namespace trace_proto
FASTPROF_NAMESPACE_END
