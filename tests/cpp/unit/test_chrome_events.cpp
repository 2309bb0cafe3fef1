// SPDX-License-Identifier: Apache-2.0
// Events of Chrome traces around their args: numbers of lanes, metadata of processes and devices,
// arrows, times and long names, each as its whole text.
#include <algorithm>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "capture_builder.hpp"
#include "check.hpp"
#include "fastprof/export/chrome_trace.hpp"

using namespace fastprof;
using fastprof_test::CaptureBuilder;

namespace {

using Part = ChromeTraceOptions::KinetoPart;

std::string trace_of(const Capture& capture, ChromeTraceOptions options = {}) {
  if (options.base_time_ns == ChromeTraceOptions::kAutomaticBase)
    options.base_time_ns = capture.t0_ns;
  std::ostringstream out;
  write_chrome_trace(capture, out, options);
  CHECK(is_json_value(out.str()));
  return out.str();
}

// The lines of events, without the comma between them; of metadata or all others.
std::vector<std::string> events(const std::string& trace, bool of_metadata) {
  std::istringstream lines(trace);
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, 7, "{\"ph\":\"") != 0 || (line[7] == 'M') != of_metadata) continue;
    if (line.back() == ',') line.pop_back();
    found.push_back(line);
  }
  return found;
}

// The text of a member, up to the next comma or brace.
std::string member(const std::string& line, const std::string& name) {
  const size_t at = line.find("\"" + name + "\":");
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 3;
  return line.substr(begin, line.find_first_of(",}", begin) - begin);
}

std::string metadata(const std::string& name, const std::string& place, const std::string& args) {
  return "{\"ph\":\"M\",\"name\":\"" + name + "\"," + place + ",\"args\":{" + args + "}}";
}

// A process of four threads of which one is named again, a task, and two devices.
CaptureBuilder many_tracks() {
  CaptureBuilder b;
  b.site("x");
  b.track(10, "main");
  b.track(11, "");
  b.track(10, "again");
  b.capture.tracks[b.track(10, "task")].thread_id = 1;
  b.capture.tracks[b.track(12, "lost")].thread_id = 77;
  return b;
}

}  // namespace

TEST(metadata_names_processes_devices_and_lanes) {
  CaptureBuilder b = many_tracks();
  const auto device = [&](int64_t pid, int32_t index, const char* kind, const char* name) {
    TrackInfo& track = b.capture.tracks[b.track(3, name)];
    track.pid = pid;
    track.device_index = index;
    track.device_kind = kind;
  };
  device(0, 0, "", "");
  device(1001, 1, "npu", "copies");
  device(0, 0, "", "again");
  device(100020001, 1, "", "theirs");
  device(17, 17, "", "named");
  b.capture.tracks[b.track(20, "loads")].pid = 20;
  b.capture.tracks[b.track(30, "unknown")].pid = 30;
  b.capture.process_names = {{17, "a device"}, {20, "loader"}};
  std::vector<std::string> expected;
  const auto process = [&](const char* pid, const char* name, const char* label, const char* sort) {
    const std::string place = "\"pid\":" + std::string(pid) + ",\"tid\":0";
    expected.push_back(metadata("process_name", place, "\"name\":\"" + std::string(name) + "\""));
    expected.push_back(
        metadata("process_labels", place, "\"labels\":\"" + std::string(label) + "\""));
    expected.push_back(
        metadata("process_sort_index", place, "\"sort_index\":" + std::string(sort)));
  };
  process("0", "trainer", "GPU 0", "5000000");
  process("1001", "trainer", "npu 1", "5001001");
  process("100020001", "loader", "GPU 1", "105020001");
  process("17", "a device", "GPU 17", "5000017");
  process("4242", "trainer", "CPU", "4242");
  process("20", "loader", "CPU", "20");
  process("30", "process 30", "CPU", "30");
  const std::vector<const char*> places = {
      "\"pid\":4242,\"tid\":10",      "\"pid\":4242,\"tid\":11",
      "\"pid\":4242,\"tid\":4194305", "\"pid\":4242,\"tid\":4194306",
      "\"pid\":4242,\"tid\":4194307", "\"pid\":0,\"tid\":3",
      "\"pid\":1001,\"tid\":3",       "\"pid\":0,\"tid\":3",
      "\"pid\":100020001,\"tid\":3",  "\"pid\":17,\"tid\":3",
      "\"pid\":20,\"tid\":20",        "\"pid\":30,\"tid\":30"};
  const std::vector<const char*> names = {"\"main\"",
                                          "\"thread 11\"",
                                          "\"again (tid 10)\"",
                                          "\"task\",\"task_of\":10",
                                          "\"lost\",\"task_of\":4194307",
                                          "\"stream 3\"",
                                          "\"copies\"",
                                          "\"again\"",
                                          "\"theirs\"",
                                          "\"named\"",
                                          "\"loads\"",
                                          "\"unknown\""};
  for (size_t i = 0; i < places.size(); ++i) {
    expected.push_back(metadata("thread_name", places[i], "\"name\":" + std::string(names[i])));
    expected.push_back(
        metadata("thread_sort_index", places[i], "\"sort_index\":" + std::to_string(i)));
  }
  const std::string trace = trace_of(b.finish());
  CHECK(events(trace, true) == expected);
  CHECK(trace.find("\"traceEvents\": [\n{\"ph\":\"M\"") != std::string::npos);
}

TEST(the_head_of_a_file_says_what_is_missing) {
  CaptureBuilder b;
  b.capture.exact_stop = false;
  b.capture.clamped = 4;
  b.capture.dropped[static_cast<size_t>(DropCause::device)] = 6;
  const std::string trace = trace_of(b.finish());
  CHECK(trace.find("\"exact_stop\": false, \"clamped\": 4, \"unfinished\": 0, \"dropped\": "
                   "{\"total\": 6, \"bound\": 0, ") != std::string::npos);
  CHECK(trace.find("\"device\": 6}},\n") != std::string::npos);
}

TEST(arrows_have_exact_ids_and_the_name_of_their_begin) {
  CaptureBuilder b;
  const uint32_t out = b.site("out", EventKind::flow_begin, "flow"),
                 in = b.site("in", EventKind::flow_end, "flow");
  constexpr uint64_t kExact = uint64_t{1} << 53;  // the last number that a double holds
  b.track(7, "main");
  b.instant(out, 1000, {kExact});
  b.instant(in, 2000, {kExact});
  b.instant(out, 3000, {kExact + 1});
  b.instant(in, 4000, {5});  // without a begin
  b.instant(in, 5000);       // without an id: left out
  const std::string head = ",\"cat\":\"flow\",\"name\":\"",
                    place = "\",\"pid\":4242,\"tid\":7,\"ts\":";
  CHECK(events(trace_of(b.finish()), false) ==
        (std::vector<std::string>{
            "{\"ph\":\"s\"" + head + "out" + place + "1.000,\"id\":9007199254740992}",
            "{\"ph\":\"f\",\"bp\":\"e\"" + head + "out" + place + "2.000,\"id\":9007199254740992}",
            "{\"ph\":\"s\"" + head + "out" + place + "3.000,\"id\":\"0x20000000000001\"}",
            "{\"ph\":\"f\",\"bp\":\"e\"" + head + "in" + place + "4.000,\"id\":5}"}));
}

TEST(arrows_to_the_work_of_a_device) {
  CaptureBuilder b;
  const uint32_t call = b.site("launch", EventKind::range, "cuda_runtime",
                               {{"correlation", ArgType::uint64}}),
                 work = b.site("kernel", EventKind::range, "kernel");
  b.track(7, "main");
  b.row(call, 1000, 2000, {5});
  b.row(call, 3000, 4000, {6});  // started nothing
  b.capture.tracks[b.track(3, "queue")].device_index = 0;
  b.capture.tracks.back().pid = 0;
  b.row(work, 5000, 6000);
  b.finish().device_links = {{0, -1, -1, 5}, {1, -1, -1, 6}, {2, 0, -1, 5}};
  std::vector<std::string> arrows;
  ChromeTraceOptions options;
  options.window_marks = Part::never;
  for (const std::string& line : events(trace_of(b.capture, options), false))
    if (line.find("\"ac2g\"") != std::string::npos) arrows.push_back(line);
  const std::string names = ",\"cat\":\"ac2g\",\"name\":\"ac2g\",";
  CHECK(arrows ==
        (std::vector<std::string>{
            "{\"ph\":\"s\"" + names + "\"pid\":4242,\"tid\":7,\"ts\":1.000,\"id\":1}",
            "{\"ph\":\"f\",\"bp\":\"e\"" + names + "\"pid\":0,\"tid\":3,\"ts\":5.000,\"id\":1}"}));
}

// Times of one millisecond share its text.
TEST(times_are_exact_whatever_the_time_before) {
  const std::pair<int64_t, const char*> times[] = {{-2000000, "-2000.000"},
                                                   {-999999, "-999.999"},
                                                   {0, "0.000"},
                                                   {999999, "999.999"},
                                                   {1000000, "1000.000"},
                                                   {1000001, "1000.001"},
                                                   {1999999, "1999.999"},
                                                   {2000000, "2000.000"},
                                                   {10012345, "10012.345"},
                                                   {123456789012345678, "123456789012345.678"}};
  CaptureBuilder b;
  const uint32_t mark = b.site("m", EventKind::mark);
  for (const bool rising : {true, false}) {
    std::vector<std::string> expected;
    for (size_t i = 0; i < 10; ++i) {
      const auto& [ns, text] = times[rising ? i : 9 - i];
      b.track(100 + static_cast<int64_t>(b.capture.tracks.size()), "");
      b.instant(mark, ns);
      expected.push_back(text);
    }
    std::vector<std::string> shown;
    for (const std::string& line : events(trace_of(b.finish()), false))
      shown.push_back(member(line, "ts"));
    shown.erase(shown.begin(), shown.end() - 10);
    CHECK(shown == expected);
  }
}

// Around the length at which the beginning of an event no longer fits the buffer's least room.
TEST(names_of_any_length_are_whole) {
  for (size_t length = 620; length < 780; ++length) {
    CaptureBuilder b;
    const uint32_t site = b.site(std::string(length, 'n'), EventKind::range, "c");
    b.track(7, "main");
    b.row(site, 1000, 3000);
    const std::vector<std::string> lines = events(trace_of(b.finish()), false);
    CHECK_EQ(lines.size(), 1u);
    CHECK_EQ(lines[0], "{\"ph\":\"X\",\"cat\":\"c\",\"name\":\"" + std::string(length, 'n') +
                           "\",\"pid\":4242,\"tid\":7,\"ts\":1.000,\"dur\":2.000,\"args\":{}}");
  }
}

TEST(optional_parts_need_ops_and_a_session) {
  const auto marks = [](Part part, const char* category, EventKind kind, int64_t t0, int64_t t1) {
    CaptureBuilder b;
    const uint32_t site = b.site("x", kind, category);
    b.track(7, "main");
    b.row(site, 0, 0);
    b.finish();
    b.capture.t0_ns = t0;
    b.capture.t1_ns = t1;
    ChromeTraceOptions options;
    options.base_time_ns = 0;
    options.window_marks = part;
    const std::string trace = trace_of(b.capture, options);
    return trace.find("Record Window End") != std::string::npos;
  };
  const EventKind range = EventKind::range, async = EventKind::async_range;
  CHECK(marks(Part::automatic, "cpu_op", range, 1, 2));
  CHECK(marks(Part::automatic, "cpu_op", async, 1, 2));
  CHECK(!marks(Part::automatic, "cpu_op", EventKind::mark, 1, 2));
  CHECK(!marks(Part::automatic, "user_annotation", range, 1, 2));
  CHECK(!marks(Part::never, "cpu_op", range, 1, 2));
  CHECK(marks(Part::always, "user_annotation", range, 1, 2));
  CHECK(!marks(Part::always, "cpu_op", range, 0, 2));
  CHECK(!marks(Part::always, "cpu_op", range, 1, 1));
  CHECK(!marks(Part::always, "cpu_op", range, 2, 1));
}
