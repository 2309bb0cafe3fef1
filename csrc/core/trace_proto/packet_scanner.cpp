// SPDX-License-Identifier: Apache-2.0
// Reads the common packets of Perfetto traces: see packet_scanner.hpp.
#include "core/trace_proto/packet_scanner.hpp"

#include "core/trace_json/json_cursor.hpp"
#include "fastprof/export/perfetto_fields.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_proto {

using trace_rows::OtherEvent;
using trace_rows::ScannedSite;
using trace_rows::Stop;
namespace track_event = perfetto::track_event;
namespace trace_packet = perfetto::trace_packet;

namespace {

constexpr size_t kMaxMembers = 48;  // repeated names are searched for in quadratic time
constexpr size_t kMaxFlows = 64;
constexpr std::string_view kSession = "\"fastprof session\"";
constexpr std::string_view kSpliced = "\"metadata\"";  // an arg whose members are args of their own
constexpr uint32_t kUnfinished = 2;                    // value of the first state bits, "finished"

}  // namespace

PacketScanner::PacketScanner(trace_rows::Conventions conventions, bool is_sorted)
    : store_(std::move(conventions)),
      empty_(store_.text_code("\"\"")),
      stacks_(is_sorted, empty_),
      names_(kMaxMembers),
      values_(kMaxMembers) {}

PacketBlock PacketScanner::scan(std::string_view data, uint32_t first_row,
                                uint64_t max_packet_bytes) {
  PacketBlock block;
  static_cast<Block&>(block) = store_.new_block();
  const char* const begin = data.data();
  const char* const end = begin + data.size();
  const char* at = begin;
  while (at != end) {
    if (*at != ((perfetto::trace::packet << 3) | 2)) {
      block.stop = Stop::refused;
      break;
    }
    const char* message = at + 1;
    uint64_t size;
    if (!read_varint(message, end, size)) {
      if (end - at > 11) block.stop = Stop::refused;
      break;
    }
    if (size > max_packet_bytes) {
      block.stop = Stop::refused;
      break;
    }
    if (size > static_cast<uint64_t>(end - message)) break;
    const auto offset = static_cast<size_t>(at - begin);
    at = message + size;
    block.consumed = static_cast<size_t>(at - begin);
    const bool is_added =
        add_packet(block, std::string_view(message, static_cast<size_t>(size)), first_row);
    ++block.events;
    if (!is_added) {
      block.others.push_back(OtherEvent{
          offset, block.consumed, static_cast<uint32_t>(block.start_ns.size()), block.events - 1});
      block.stop = Stop::other;
      break;
    }
  }
  return block;
}

uint32_t PacketScanner::text_code(std::string_view text) {
  std::string json;
  return append_string(json, text) ? store_.text_code(json) : empty_;
}

void PacketScanner::intern(uint64_t sequence, TextKind kind, uint64_t iid, std::string_view text) {
  std::string json;
  auto& known = sequences_[sequence].texts[static_cast<int>(kind)];
  known.erase(iid);
  if (!append_string(json, text)) return;  // the caller reads packets that refer to it
  text_bytes_ += json.size() + 64;
  known.emplace(iid, std::move(json));
}

void PacketScanner::set_counter(uint64_t uuid, std::string_view name, uint32_t track) {
  std::string json;
  if (append_string(json, name)) counters_[uuid] = CounterTrack{std::move(json), track};
}

// Reads a packet that contains a track event and nothing else of importance. Returns false for any
// other.
bool PacketScanner::read_packet(std::string_view message, Packet& packet) {
  uint32_t seen = 0;
  Fields fields(message);
  while (fields.next()) {
    const bool is_event = fields.number == trace_packet::track_event;
    if (fields.wire != (is_event ? Wire::bytes : Wire::varint)) return false;
    uint32_t bit = 0;
    switch (fields.number) {
      case trace_packet::timestamp:
        bit = 1;
        packet.timestamp = fields.value;
        break;
      case trace_packet::trusted_packet_sequence_id:
        bit = 2;
        packet.sequence = fields.value;
        break;
      case trace_packet::track_event:
        bit = 4;
        packet.event = fields.bytes;
        break;
      case trace_packet::sequence_flags:
        bit = 8;
        packet.flags = fields.value;
        break;
      case trace_packet::timestamp_clock_id:
        bit = 16;
        packet.clock = fields.value;
        break;
      case trace_packet::trusted_uid:
      case trace_packet::trusted_pid:
        break;
      default:
        return false;
    }
    if ((seen & bit) != 0) return false;
    seen |= bit;
  }
  constexpr uint32_t kNeeded = 1 | 2 | 4;
  return fields.done() && (seen & kNeeded) == kNeeded &&
         (packet.flags & trace_packet::incremental_state_cleared) == 0;
}

bool PacketScanner::add_annotation(const SequenceState& sequence, std::string_view message) {
  const size_t index = members_.size();
  if (index == kMaxMembers) return false;
  std::string& name = names_[index];
  std::string& value = values_[index];
  name.clear();
  value.clear();
  if (!append_annotation(name, value, message, sequence)) return false;
  if (is_own_ && name == kSpliced) {
    if (!spliced_.empty() || value[0] != '{') return false;
    spliced_.swap(value);
    return true;
  }
  return add_member(std::string_view(name).substr(1, name.size() - 2), value);
}

bool PacketScanner::add_member(std::string_view name, std::string_view value) {
  const uint32_t key = store_.key_code(name);
  if (key == trace_rows::RowStore::kTooManyKeys || members_.size() == kMaxMembers) return false;
  for (const Member& member : members_)
    if (member.key == key) return false;
  members_.push_back(Member{key, value});
  return true;
}

// Adds the members of the arg that add_annotation() set aside, after the others.
bool PacketScanner::add_spliced() {
  bool is_plain = true;
  trace_json::Cursor cursor{spliced_.data(), spliced_.data() + spliced_.size()};
  const auto read = trace_json::read_members(
      cursor, [&](std::string_view key, bool escapes, std::string_view value) {
        if (escapes || !add_member(key, value)) is_plain = false;
      });
  return is_plain && read == trace_json::Read::done;
}

bool PacketScanner::read_event(const SequenceState& sequence, std::string_view message,
                               Event& event) {
  members_.clear();
  spliced_.clear();
  flows_.clear();
  category_.clear();
  Fields fields(message);
  while (fields.next()) {
    const bool is_varint = fields.wire == Wire::varint;
    const bool is_bytes = fields.wire == Wire::bytes;
    const uint64_t bit = fields.number < 64 ? uint64_t{1} << fields.number : 0;
    const bool repeats = (event.seen & bit) != 0;
    event.seen |= bit;
    switch (fields.number) {
      case track_event::type:
      case track_event::name_iid:
      case track_event::track_uuid:
      case track_event::source_location_iid:
      case track_event::counter_value:
        if (!is_varint || repeats) return false;
        if (fields.number == track_event::type) event.type = fields.value;
        if (fields.number == track_event::name_iid) event.name_iid = fields.value;
        if (fields.number == track_event::track_uuid) event.track_uuid = fields.value;
        if (fields.number == track_event::source_location_iid) {
          event.location_iid = fields.value;
          event.has_location = true;
        }
        if (fields.number == track_event::counter_value) {
          if (event.has_value) return false;
          event.value = fields.value;
          event.has_value = true;
        }
        break;
      case track_event::double_counter_value:
        if (fields.wire != Wire::fixed64 || event.has_value) return false;
        event.value = fields.value;
        event.has_value = event.is_real = true;
        break;
      case track_event::name:
        if (!is_bytes || repeats) return false;
        event.name = fields.bytes;
        break;
      case track_event::category_iids:
      case track_event::categories: {
        std::string_view known;
        std::string text;
        if (fields.number == track_event::category_iids) {
          // Texts follow iids in the joined category, so a text before an iid is unusual.
          if (!is_varint || (event.seen & (uint64_t{1} << track_event::categories)) != 0)
            return false;
          known = sequence.text(TextKind::category, fields.value);
        } else if (is_bytes && append_string(text, fields.bytes)) {
          known = text;
        }
        if (known.empty()) return false;
        if (event.has_category) category_ += ',';
        event.has_category = true;
        category_ += known.substr(1, known.size() - 2);
        break;
      }
      case track_event::debug_annotations:
        if (!is_bytes || !add_annotation(sequence, fields.bytes)) return false;
        break;
      case track_event::flow_ids:
      case track_event::terminating_flow_ids: {
        const bool ends = fields.number == track_event::terminating_flow_ids;
        const bool follows_end =
            !ends && (event.seen & (uint64_t{1} << track_event::terminating_flow_ids)) != 0;
        if (fields.wire != Wire::fixed64 || follows_end || flows_.size() == kMaxFlows) return false;
        flows_.emplace_back(fields.value, ends ? 1 : 0);
        break;
      }
      default:
        return false;
    }
  }
  return fields.done() && (spliced_.empty() || add_spliced());
}

const Place* PacketScanner::place_of(const SequenceState& sequence, const Event& event) const {
  const bool is_given = (event.seen & (uint64_t{1} << track_event::track_uuid)) != 0;
  const uint64_t uuid = is_given ? event.track_uuid : sequence.track_uuid;
  if (uuid == 0) return is_given || !sequence.place.is_known ? nullptr : &sequence.place;
  const auto found = places_.find(uuid);
  return found == places_.end() ? nullptr : &found->second;
}

// Adds the row of a packet. Returns false, with nothing changed, if the caller must read it.
bool PacketScanner::add_packet(PacketBlock& block, std::string_view message, uint32_t first_row) {
  Packet packet;
  if (!read_packet(message, packet)) return false;
  const auto state = sequences_.find(packet.sequence);
  if (state == sequences_.end()) return false;
  const SequenceState& sequence = state->second;
  if ((packet.flags & trace_packet::needs_incremental_state) != 0 && !sequence.is_valid)
    return false;
  uint64_t key = packet.clock != 0 ? packet.clock : sequence.clock;
  if (key > UINT32_MAX || packet.sequence > UINT32_MAX) return false;
  constexpr uint64_t kFirst = perfetto::clock_snapshot::first_of_sequence;
  if (key >= kFirst && key < 2 * kFirst) key |= packet.sequence << 32;
  const auto clock = clocks_.find(key);
  if (clock == clocks_.end()) return false;
  Event event;
  if (!read_event(sequence, packet.event, event)) return false;
  if (event.type == track_event::counter)
    return add_counter(block, sequence, event, clock->second, packet.timestamp);
  if (event.has_value) return false;
  const bool is_end = event.type == track_event::slice_end;
  const bool is_instant = event.type == track_event::instant;
  if (!is_end && !is_instant && event.type != track_event::slice_begin) return false;
  const Place* const place = place_of(sequence, event);
  if (place == nullptr) return false;
  std::string_view name = "\"\"";
  if (event.name_iid != 0) {
    name = sequence.text(TextKind::event_name, event.name_iid);
    if (name.empty()) return false;
  } else if (!event.name.empty()) {
    name_.clear();
    if (!append_string(name_, event.name)) return false;
    name = name_;
  }
  ScannedSite site{};
  if (event.has_location) {
    const auto found = sequence.locations.find(event.location_iid);
    if (found == sequence.locations.end()) return false;
    site.place = found->second;
  }
  category_.insert(0, 1, '"');
  category_ += '"';
  int64_t time_ns;
  if (is_end) {
    if (!members_.empty() || !flows_.empty()) return false;
    if (!clock->second.convert(packet.timestamp, time_ns)) return false;
    stacks_.end(place->stack, time_ns, store_.text_code(name), store_.text_code(category_), 0);
    return true;
  }
  // The caller reads memory records, which are instants named in brackets, and the session's facts.
  if (is_instant && (name.substr(1, 1) == "[" || name == kSession)) return false;
  const bool is_flow = is_own_ && is_instant && !flows_.empty();
  if (is_flow && (flows_.size() != 1 || !members_.empty())) return false;
  if (!store_.are_plain(members_)) return false;
  if (!clock->second.convert(packet.timestamp, time_ns)) return false;
  const auto row = static_cast<uint32_t>(block.start_ns.size());
  site.name = store_.text_code(name);
  site.category = store_.text_code(category_);
  site.phase = is_flow ? (flows_[0].second != 0 ? 'f' : 's') : is_instant ? 'i' : 'B';
  if (is_flow) {
    block.args.push_back(-1);
    block.flow.rows.push_back(row);
    block.flow.values.push_back(static_cast<int64_t>(flows_[0].first));
  } else {
    store_.add_args(block, members_, site, !is_own_);
    for (const auto& [id, step] : flows_) {
      block.links.rows.push_back(first_row + row);
      block.links.ids.push_back(id);
      block.links.steps.push_back(step);
    }
  }
  if (!is_instant && store_.is_op(category_)) site.scope = store_.scope_of(block, site.name);
  block.start_ns.push_back(time_ns);
  block.end_ns.push_back(time_ns);
  block.site.push_back(store_.site_code(site));
  block.track.push_back(place->track);
  if (!is_instant) {
    const bool stays_unfinished = (site.state & 3) == kUnfinished;
    stacks_.begin(place->stack, time_ns,
                  OpenSlice{first_row + row, site.name, site.category, stays_unfinished, time_ns});
  }
  return true;
}

bool PacketScanner::add_counter(PacketBlock& block, const SequenceState& sequence,
                                const Event& event, ClockState& clock, uint64_t timestamp) {
  const bool is_given = (event.seen & (uint64_t{1} << track_event::track_uuid)) != 0;
  const uint64_t uuid = is_given ? event.track_uuid : sequence.track_uuid;
  const auto counter = counters_.find(uuid);
  if (counter == counters_.end() || !event.has_value || !members_.empty()) return false;
  // A counter has its own track; the thread that set it is the sequence's default track.
  uint32_t track = counter->second.track;
  if (sequence.track_uuid != 0 && sequence.track_uuid != uuid) {
    const auto place = places_.find(sequence.track_uuid);
    if (place == places_.end()) return false;
    track = place->second.track;
  }
  int64_t time_ns;
  if (!clock.convert(timestamp, time_ns)) return false;
  const auto row = static_cast<uint32_t>(block.start_ns.size());
  ScannedSite site{};
  site.name = store_.text_code(counter->second.name);
  site.category = store_.text_code("\"counter\"");
  site.phase = event.is_real ? 'D' : 'C';
  block.flow.rows.push_back(row);
  block.flow.values.push_back(static_cast<int64_t>(event.value));
  block.args.push_back(-1);
  block.start_ns.push_back(time_ns);
  block.end_ns.push_back(time_ns);
  block.site.push_back(store_.site_code(site));
  block.track.push_back(track);
  return true;
}

size_t PacketScanner::bytes() const noexcept {
  constexpr size_t kEntry = 64;  // of a hash table, without its texts
  return store_.bytes() + stacks_.bytes() + text_bytes_ +
         kEntry * (places_.size() + clocks_.size()) + 4 * kEntry * sequences_.size() +
         2 * kEntry * counters_.size();
}

}  // namespace trace_proto
FASTPROF_NAMESPACE_END
