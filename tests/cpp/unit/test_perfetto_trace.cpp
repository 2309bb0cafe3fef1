// SPDX-License-Identifier: Apache-2.0
// The Perfetto writer, read back by a small decoder of our own: every packet, nanosecond and name.
// What Perfetto itself makes of it is tested in tests/python/integration/test_trace_readers.py.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "check.hpp"
#include "fastprof/export/perfetto_trace.hpp"
#include "fastprof/payload/op_inputs/input_words.hpp"
#include "protobuf_fields.hpp"
#include "rich_capture.hpp"

using namespace fastprof;
using namespace fastprof_test;
using namespace protobuf_fields;

namespace {

const Field* find(const std::vector<Field>& fields, uint32_t id) {
  for (const Field& field : fields)
    if (field.id == id) return &field;
  return nullptr;
}
uint64_t number(std::string_view message, uint32_t id, uint64_t otherwise = 0) {
  const std::vector<Field> fields = fields_of(message);
  const Field* field = find(fields, id);
  return field == nullptr ? otherwise : field->number;
}

struct Event {
  int64_t ns;
  uint64_t type, track;
  std::string name;
  bool operator<(const Event& o) const {
    return std::tie(ns, type, track, name) < std::tie(o.ns, o.type, o.track, o.name);
  }
};

// All track events with absolute times and resolved names and tracks; the session's own note left
// out.
std::vector<Event> read_trace(const std::string& trace) {
  using namespace perfetto;
  struct Sequence {
    int64_t clock = 0;
    uint64_t track = 0;
    std::map<uint64_t, std::string> names;
  };
  std::map<uint64_t, Sequence> sequences;
  std::vector<Event> events;
  for (const Field& packet : fields_of(trace)) {
    CHECK_EQ(packet.id, 1u);
    const std::vector<Field> fields = fields_of(packet.bytes);
    const Field* id = find(fields, trace_packet::trusted_packet_sequence_id);
    CHECK(id != nullptr && id->number != 0);
    Sequence& sequence = sequences[id->number];
    if (const Field* defaults = find(fields, trace_packet::trace_packet_defaults)) {
      const std::vector<Field> inner = fields_of(defaults->bytes);
      CHECK_EQ(find(inner, trace_packet_defaults::timestamp_clock_id)->number, 64u);
      sequence.track = number(find(inner, trace_packet_defaults::track_event_defaults)->bytes,
                              track_event_defaults::track_uuid);
    }
    if (const Field* snapshot = find(fields, trace_packet::clock_snapshot)) {
      for (const Field& clock : fields_of(snapshot->bytes)) {
        if (clock.id != clock_snapshot::clocks) continue;
        if (number(clock.bytes, clock::clock_id) == clock_snapshot::realtime)
          sequence.clock = static_cast<int64_t>(number(clock.bytes, clock::timestamp));
      }
    }
    if (const Field* names = find(fields, trace_packet::interned_data)) {
      for (const Field& entry : fields_of(names->bytes)) {
        if (entry.id != interned_data::event_names) continue;
        const std::vector<Field> inner = fields_of(entry.bytes);
        sequence.names[find(inner, interned::iid)->number] =
            std::string(find(inner, interned::name)->bytes);
      }
    }
    const Field* event = find(fields, trace_packet::track_event);
    if (event == nullptr || id->number == 1) continue;
    CHECK_EQ(find(fields, trace_packet::sequence_flags)->number,
             trace_packet::needs_incremental_state);
    const Field* time = find(fields, trace_packet::timestamp);
    CHECK(time != nullptr && time->number < uint64_t{1} << 62);
    sequence.clock += static_cast<int64_t>(time->number);
    Event out{sequence.clock,
              number(event->bytes, track_event::type),
              number(event->bytes, track_event::track_uuid, sequence.track),
              {}};
    if (const uint64_t name = number(event->bytes, track_event::name_iid)) {
      CHECK(sequence.names.count(name) == 1);
      out.name = sequence.names[name];
    }
    events.push_back(out);
  }
  return events;
}

std::string perfetto_bytes(const Capture& capture) {
  std::ostringstream out;
  const uint64_t size = write_perfetto_trace(capture, out);
  CHECK_EQ(size, out.str().size());
  return out.str();
}

}  // namespace

TEST(every_row_is_there_to_the_nanosecond) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Capture capture = seed == 0 ? rich_capture() : random_capture(seed, 120);
    const std::vector<Event> events = read_trace(perfetto_bytes(capture));
    std::vector<Event> begins, expected;
    std::vector<int64_t> ends, expected_ends;
    size_t unfinished = 0;
    for (const Event& event : events) {
      if (event.type == 2) {
        ends.push_back(event.ns);
      } else {
        begins.push_back({event.ns, event.type, 0, event.name});
      }
    }
    for (size_t row = 0; row < capture.size(); ++row) {
      const EventKind kind = capture.kind[row];
      if (kind == EventKind::session_membership) continue;
      const bool bare = capture.payload[row] == kNoPayload;
      if (bare && (kind == EventKind::counter || kind == EventKind::flow_begin ||
                   kind == EventKind::flow_end))
        continue;
      std::string name;
      if (kind == EventKind::memory) name = "[memory]";
      if (kind == EventKind::out_of_memory) name = "[OutOfMemory]";
      if (name.empty() && kind != EventKind::counter)
        append_utf8(name, capture.sites[capture.site[row]].name);
      expected.push_back({capture.start_ns[row],
                          is_any_range(kind)           ? 1u
                          : kind == EventKind::counter ? 4u
                                                       : 3u,
                          0, name});
      if (is_any_range(kind)) {
        expected_ends.push_back(capture.end_ns[row]);
        unfinished += (capture.flags[row] & event_flag::finished) == 0;
      }
    }
    std::sort(begins.begin(), begins.end());
    std::sort(expected.begin(), expected.end());
    CHECK_EQ(begins.size(), expected.size());
    CHECK(!(begins < expected) && !(expected < begins));
    // Every finished range has its end; of the unfinished ones only those that something else had
    // to close.
    CHECK(ends.size() <= expected_ends.size() && ends.size() + unfinished >= expected_ends.size());
    std::sort(ends.begin(), ends.end());
    std::sort(expected_ends.begin(), expected_ends.end());
    CHECK(std::includes(expected_ends.begin(), expected_ends.end(), ends.begin(), ends.end()));
  }
}

// Only a range that ended has an end, and one that lies between it and the end of the lane.
TEST(ends_are_those_that_something_needs) {
  const auto events = [](const Capture& capture) {
    std::string text;  // of each event: its time, and ( or )
    for (const Event& event : read_trace(perfetto_bytes(capture)))
      text += std::to_string(event.ns) + (event.type == 1 ? "( " : ") ");
    return text;
  };
  const auto shown = [&](CaptureBuilder& b) { return events(b.finish()); };
  const auto make = [] {
    CaptureBuilder b(0, 1000);
    b.site("x");
    b.track(1, "main");
    return b;
  };
  CaptureBuilder open = make();
  open.row(0, 0, -1);
  open.row(0, 10, 20);
  open.row(0, 20, -1);
  open.row(0, 30, 40);
  open.row(0, 50, -1);
  CHECK_EQ(shown(open), "0( 10( 20) 20( 30( 40) 50( ");
  CaptureBuilder killed = make();  // open until its process ended, before the stop
  killed.row(0, 0, 500);
  killed.capture.flags[0] = 0;
  CHECK_EQ(shown(killed), "0( 500) ");
  CaptureBuilder inside = make();  // of one that ended at the stop
  inside.row(0, 0, -1);
  inside.row(0, 1, 1000);
  inside.row(0, 2, -1);
  CHECK_EQ(shown(inside), "0( 1( 2( 1000) 1000) ");
  CaptureBuilder at_the_end = make();
  at_the_end.row(0, 0, 10);
  at_the_end.row(0, 10, 10);
  at_the_end.row(0, 10, 11);
  CHECK_EQ(shown(at_the_end), "0( 10) 10( 10) 10( 11) ");
  // A child in the last nanosecond of its parent, as ticks may say, stays inside.
  CaptureBuilder child = make();
  child.row(0, 0, 10);
  child.row(0, 10, 10);
  child.finish().parent[1] = 0;
  CHECK_EQ(events(child.capture), "0( 10( 10) 10) ");
}

TEST(a_range_costs_at_most_36_bytes) {
  CaptureBuilder b;
  const uint32_t outer = b.site("outer"), inner = b.site("inner");
  b.track(1, "");
  for (int i = 0; i < 50000; ++i) {
    b.row(outer, i * 1000, i * 1000 + 900);
    b.row(inner, i * 1000 + 100, i * 1000 + 500);
  }
  CHECK(perfetto_bytes(b.finish()).size() < 100000 * 36);
}

// The names of the debug annotations of all track events.
static std::set<std::string> arg_names(const std::string& trace) {
  std::map<uint64_t, std::string> interned;
  std::set<std::string> found;
  for (const Field& packet : fields_of(trace)) {
    for (const Field& part : fields_of(packet.bytes)) {
      if (part.id == 12) {  // interned_data, debug_annotation_names
        for (const Field& entry : fields_of(part.bytes)) {
          if (entry.id != 3) continue;
          for (const Field& field : fields_of(entry.bytes))
            if (field.id == 2) interned[number(entry.bytes, 1)] = std::string(field.bytes);
        }
      }
      if (part.id == 11)  // track_event, debug_annotations
        for (const Field& field : fields_of(part.bytes))
          if (field.id == 4) found.insert(interned[number(field.bytes, 1)]);
    }
  }
  return found;
}

// Which of them are shown: numbers from 0 on, ids from 1 on, no forward thread without a number.
TEST(args_of_an_op_are_those_that_are_known) {
  const char* const names[] = {"Sequence number", "Fwd thread id", "Record function id", "Node id"};
  const auto none = static_cast<uint64_t>(int64_t{-1});
  struct Case {
    std::vector<uint64_t> words;
    const char* shown;  // a letter for each name
  };
  // clang-format off
  const Case cases[] = {
      {{}, ""}, {{0}, "S"}, {{none}, ""}, {{5, 3}, "SF"}, {{0, 3}, "SF"}, {{none, 3}, ""},
      {{5, 0}, "S"}, {{5, none}, "S"}, {{5, 3, 1}, "SFR"}, {{none, 3, 2}, "R"}, {{5, 3, 0}, "SF"},
      {{5, 3, none, 0}, "SFN"}, {{5, 3, 6, 7}, "SFRN"}, {{5, 3, 6, none}, "SFR"},
      {{5, 3, 6, 7, 8}, "SFRN"}};
  // clang-format on
  for (const Case& c : cases) {
    CaptureBuilder b;
    b.track(1, "main");
    const auto count = static_cast<uint32_t>(c.words.size());
    std::vector<uint64_t> words{count + 1, detail_block_word(DetailType::op, count)};
    words.insert(words.end(), c.words.begin(), c.words.end());
    b.row(b.site("op"), 0, 100, words, event_flag::detail);
    const std::set<std::string> found = arg_names(perfetto_bytes(b.finish()));
    for (size_t n = 0; n < 4; ++n) {
      const bool expected = std::string(c.shown).find("SFRN"[n]) != std::string::npos;
      CHECK_EQ(found.count(names[n]), size_t{expected});
    }
  }
}

TEST(details_of_a_range_have_names) {
  CaptureBuilder b;
  b.track(1, "main");
  const uint64_t text = b.string("Tensor");
  std::vector<uint64_t> inputs(100);
  InputWords put(inputs.data(), 100);
  for (const char* each : {"stream", "7"}) put.put_text(each, std::strlen(each));
  const uint32_t count = InputWords::finish(inputs.data(), put.position(), 0, 1, 0);
  std::vector<uint64_t> words = {5 + count, detail_block_word(DetailType::overload, 1),
                                 text,      detail_block_word(DetailType::modules, 1),
                                 text,      detail_block_word(DetailType::op_inputs, count)};
  words.insert(words.end(), inputs.begin(), inputs.begin() + count);
  b.row(b.site("op"), 0, 100, words, event_flag::detail);
  const std::set<std::string> found = arg_names(perfetto_bytes(b.finish()));
  for (const char* name : {"Overload name", "Module Hierarchy", "Keyword Inputs"})
    CHECK_EQ(found.count(name), size_t{1});
}
