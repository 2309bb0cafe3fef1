// SPDX-License-Identifier: Apache-2.0
// The Chrome writer: exact lines, strictness over random captures, lanes that nest, and files that
// are whole or absent. What readers make of it is tested in
// tests/python/integration/test_trace_readers.py.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>

#include "check.hpp"
#include "fastprof/export/chrome_trace.hpp"
#include "fastprof/export/frame_name.hpp"
#include "process_changes.hpp"
#include "rich_capture.hpp"
#include "temporary_folder.hpp"
#include "text_checks.hpp"

using namespace fastprof;
using namespace fastprof_test;
using namespace text_checks;

namespace {

std::string chrome_text(const Capture& capture, const ChromeTraceOptions& options = {}) {
  std::ostringstream out;
  const uint64_t bytes = write_chrome_trace(capture, out, options);
  CHECK_EQ(bytes, out.str().size());
  return out.str();
}

}  // namespace

TEST(no_member_of_the_top_level_comes_twice) {
  ChromeTraceOptions options;
  options.metadata = {{"\xED\xA0\x80", "1"}, {"\xED\xA0\x81", "2"}, {"traceEvents", "3"}};
  const std::string text = chrome_text(rich_capture(), options);
  CHECK(is_json_value(text));
  CHECK(has(text, "\n\"\xEF\xBF\xBD\": 1,\n\"\xEF\xBF\xBD_\": 2,\n\"traceEvents_\": 3,\n"));
}

TEST(lines) {
  ChromeTraceOptions options;
  options.base_time_ns = 1'700'000'000'000'000'000;
  options.metadata = {{"trace_id", "\"abc\""}, {"bad", "{not json"}};
  options.event_ids = ChromeTraceOptions::KinetoPart::never;
  const std::string text = chrome_text(rich_capture(), options);
  CHECK(is_json_value(text));
  CHECK(has(text,
            "\"schemaVersion\": 1,\n\"deviceProperties\": [],\n\"trace_id\": \"abc\",\n\"bad\": "
            "\"{not json\",\n"));
  CHECK(has(text,
            "\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": "
            "1700000000000000000,\n\"traceEvents\": [\n"));
  CHECK(has(text,
            "\"clock_error_ns\": 17, \"exact_stop\": true, \"clamped\": 0, \"unfinished\": 1, "
            "\"dropped\": {\"total\": 3, \"bound\": 3,"));
  CHECK(
      has(text,
          "\n{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"step\",\"pid\":4242,\"tid\":4242,"
          "\"ts\":1.000,\"dur\":99.000,\"args\":{}},\n"));
  CHECK(has(text,
            "\"dur\":38.000,\"args\":{\"Sequence number\":77,\"Fwd thread id\":0,\"Record function "
            "id\":5,\"C++ stack\":[\"0xdeadbeef\",\"0x1000\"],\"Input Dims\": [[2, "
            "3], []], "
            "\"Concrete Inputs\": [\"\", \"1\"],\"Module Hierarchy\":\"TOP(M)::forward.a(\\\"A\\\")"
            "::forward.\",\"cycles\":500,\"instructions\":400,"
            "\"counted_fraction\":0.5}}"));
  CHECK(has(text, "\"nan\":\"NaN\",\"inf\":\"-Infinity\","));
  CHECK(has(text,
            "\"s\":\"a\\\"b\\\\\\u0001\xEF\xBF\xBD\xC3\xA9\",\"p\":\"0xabc\",\"finished_\":9}}"));
  CHECK(has(text,
            "\"ts\":3.200,\"args\":{\"Device Type\":1,\"Device "
            "Id\":2,\"Addr\":139637976731648,\"Bytes\":512,\"Total "
            "Allocated\":4096,"
            "\"Total Reserved\":8192}}"));
  CHECK(has(text,
            "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"cpu_instant_event\",\"name\":\"[OutOfMemory]\","
            "\"pid\":4242,\"tid\":4242,"
            "\"ts\":3.400,\"args\":{\"Device Type\":1,\"Device Id\":2,\"Bytes\":1048576,"));
  CHECK(has(text,
            "{\"ph\":\"C\",\"cat\":\"counter\",\"name\":\"loss\",\"pid\":4242,\"tid\":4242,\"ts\":"
            "50.000,\"args\":{\"value\":0.5}}"));
  CHECK(has(text,
            "{\"ph\":\"s\",\"cat\":\"flow\",\"name\":\"launch\",\"pid\":4242,\"tid\":4242,\"ts\":2."
            "500,\"id\":\"0x1000000000000000\"}"));
  CHECK(has(text,
            "{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"flow\",\"name\":\"launch\",\"pid\":4242,\"tid\":"
            "4300,\"ts\":3.500,\"id\":\"0x1000000000000000\"}"));
  CHECK(has(text, "\"dur\":113.000,\"args\":{\"is_async\":true,\"End thread\":4300}}"));
  CHECK(has(text, "\"finished\":false}}"));
  CHECK(has(text, "\"name\":\"kernel on \xF0\x9F\x9A\x80\\n\xEF\xBF\xBD\""));
  CHECK(has(text,
            "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":4242,\"tid\":4300,\"args\":{\"name\":"
            "\"worker \\\"1\\\"\"}}"));
  CHECK(has(text, "{\"name\":\"worker again (tid 4300)\"}"));
  CHECK(has(text, "{\"name\":\"main: async 0\"}"));
  CHECK(has(text, "{\"name\":\"main: overlapping 0\"}"));
}

namespace {

// An engine's range around a backward function of node 7, which op `first` made; then
// AccumulateGrad, whose node has no number.
Capture autograd_capture() {
  const auto numbers = [](uint64_t sequence, uint64_t thread, uint64_t record_function) {
    return std::vector<uint64_t>{4, detail_block_word(DetailType::op, 3), sequence, thread,
                                 record_function};
  };
  constexpr auto none = static_cast<uint64_t>(-1);
  CaptureBuilder b;
  const uint32_t first = b.site("aten::mm", EventKind::range, "cpu_op");
  const uint32_t engine =
      b.site("autograd::engine::evaluate_function: MmBackward0", EventKind::range, "cpu_op");
  const uint32_t backward = b.site("MmBackward0", EventKind::range, "cpu_op");
  const uint32_t leaf = b.site("torch::autograd::AccumulateGrad", EventKind::range, "cpu_op");
  const uint32_t step = b.site("step"), mark = b.site("mark", EventKind::mark);
  const uint32_t given =
      b.site("given", EventKind::range, "user_annotation", {{"External id", ArgType::int64}});
  b.track(1, "main");
  b.row(step, 0, 1000);
  b.row(first, 100, 200, numbers(7, 0, 31), event_flag::detail);
  b.row(engine, 300, 400);
  b.row(backward, 310, 390, numbers(7, 1, 0), event_flag::detail);
  b.row(leaf, 500, 600, numbers(none, 1, 0), event_flag::detail);
  b.row(given, 700, 800, {5});
  b.instant(mark, 900);
  b.row(step, 2000, 3000,
        {2, detail_block_word(DetailType::json, 1),
         b.string("{\"External id\": 90, \"Ev Idx\": 89}")},
        event_flag::detail);
  return b.finish();
}

// Returns the args of the nth event with this name.
std::string args_of(const std::string& text, const std::string& name, int n = 0) {
  size_t at = 0;
  for (; n >= 0; --n) at = text.find("\"name\":\"" + name + "\"", at + 1);
  at = text.find("\"args\":", at) + 7;
  return text.substr(at, text.find('}', at) + 1 - at);
}

}  // namespace

// `with Phase():`, whose __enter__ begins a range and whose __exit__ ends it.
TEST(a_range_stays_on_its_thread_and_calls_that_begin_and_end_it_do_not) {
  CaptureBuilder b;
  b.track(1, "main");
  const uint32_t enter = b.site("enter"), begins = b.site("begins"), range = b.site("range");
  const uint32_t late = b.site("late"), work = b.site("work"), leave = b.site("leave");
  b.row(enter, 0, 100);
  b.row(begins, 10, 60);
  b.row(range, 50, 1000);
  b.row(late, 70, 90);
  b.row(work, 200, 900);
  b.row(leave, 950, 1100);
  const Capture capture = b.finish();
  const TrackLayout layout(capture);
  for (size_t row : {2u, 4u}) CHECK_EQ(layout.lane_of(row), 0u);
  for (size_t row : {0u, 1u, 5u})
    CHECK_EQ(layout.lanes()[layout.lane_of(row)].name, "main: overlapping 0");
}

TEST(events_carry_kinetos_ids) {
  const std::string text = chrome_text(autograd_capture());
  CHECK(is_json_value(text));
  const char* engine = "autograd::engine::evaluate_function: MmBackward0";
  CHECK_EQ(args_of(text, "step"), "{\"External id\":1,\"Record function id\":0,\"Ev Idx\":0}");
  CHECK_EQ(args_of(text, "aten::mm"),
           "{\"Sequence number\":7,\"Fwd thread id\":0,\"External id\":2,\"Record function "
           "id\":31,\"Ev Idx\":1}");
  CHECK_EQ(args_of(text, engine),
           "{\"Sequence number\":7,\"Fwd thread id\":1,\"External id\":3,\"Record function "
           "id\":0,\"Ev Idx\":2}");
  CHECK_EQ(args_of(text, "MmBackward0"),
           "{\"Sequence number\":7,\"Fwd thread id\":1,\"External id\":4,\"Record function "
           "id\":0,\"Ev Idx\":3}");
  CHECK_EQ(args_of(text, "torch::autograd::AccumulateGrad"),
           "{\"External id\":5,\"Record function id\":0,\"Ev Idx\":4}");
  // A user's member with the name of one of ours is renamed, or replaces ours; its value is kept.
  CHECK_EQ(args_of(text, "given"),
           "{\"External id_\":5,\"External id\":6,\"Record function id\":0,\"Ev Idx\":5}");
  CHECK_EQ(args_of(text, "mark"), "{\"Ev Idx\":6}");
  CHECK_EQ(args_of(text, "step", 1), "{\"External id\": 90, \"Ev Idx\": 89}");
}

TEST(kinetos_window_ends_the_trace) {
  ChromeTraceOptions options;
  options.base_time_ns = 1'700'000'000'000'000'000;
  const std::string window =
      "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"PyTorch Profiler (0)\",\"pid\":536870912,"
      "\"tid\":536870913,\"ts\":0.000,\"dur\":999999.997,\"args\":{\"Op count\":7}},\n"
      "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":536870912,\"tid\":0,\"args\":"
      "{\"sort_index\":536870912}},\n"
      "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Iteration Start: PyTorch Profiler\",\"pid\":"
      "536870912,\"tid\":536870914,\"ts\":0.000},\n"
      "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Record Window End\",\"pid\":536870912,\"tid\":"
      "536870914,\"ts\":1000000.000}\n],\n";
  Capture capture = autograd_capture();
  CHECK(has(chrome_text(capture, options), window));
  options.window_marks = ChromeTraceOptions::KinetoPart::never;
  CHECK(!has(chrome_text(capture, options), "Record Window End"));
  options.window_marks = ChromeTraceOptions::KinetoPart::always;
  capture.t0_ns = capture.t1_ns = 0;  // a table made by hand
  CHECK(!has(chrome_text(capture, options), "Record Window End"));
}

__attribute__((noinline)) static const void* here() {
  return __builtin_return_address(0);
}

TEST(native_stacks_are_named) {
  const uint64_t in_this_test = reinterpret_cast<uint64_t>(here());
  const auto make = [&] {
    CaptureBuilder b;
    const uint32_t site = b.site("x");
    b.track(1, "");
    b.row(site, 0, 9, {5, detail_block_word(DetailType::cpp_stack, 2), in_this_test, 0x10, 0, 0},
          event_flag::detail);
    return b.finish();
  };
  Capture capture = make();
  CHECK(!capture_frame_name(capture));  // made by another process
  capture.pid = getpid();
  ChromeTraceOptions options;
  options.frame_name = capture_frame_name(capture);
  const std::string text = chrome_text(capture, options);
  CHECK(is_json_value(text));
  CHECK(has(text, "test_native_stacks_are_named"));
  CHECK(has(text, ")\",\"0x10\"]"));
}

TEST(decimals) {
  std::mt19937_64 random(5);
  char buffer[64];
  for (int i = 0; i < 200000; ++i) {
    const uint64_t value = random() >> (random() % 64);
    *put_decimal(buffer, value) = 0;
    CHECK(std::to_string(value) == buffer);
    const auto signed_value = static_cast<int64_t>(value);
    *put_decimal_signed(buffer, signed_value) = 0;
    CHECK(std::to_string(signed_value) == buffer);
    *put_microseconds(buffer, signed_value) = 0;
    const uint64_t size = signed_value < 0 ? 0 - value : value;
    char expected[64];
    std::snprintf(expected, sizeof expected, "%s%llu.%03llu", signed_value < 0 ? "-" : "",
                  static_cast<unsigned long long>(size / 1000),
                  static_cast<unsigned long long>(size % 1000));
    CHECK(std::string(expected) == buffer);
    std::snprintf(expected, sizeof expected, "%llx", static_cast<unsigned long long>(value));
    *put_hex(buffer, value) = 0;
    CHECK(std::string(expected) == buffer);
  }
}

TEST(random_captures_are_strict_json) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const std::string text = chrome_text(random_capture(seed));
    if (!is_json_value(text)) CHECK(is_json_value(text));
  }
}

TEST(huge_names) {
  CaptureBuilder b;
  std::string all;
  for (int i = 0; i < 100000; ++i) all.push_back(static_cast<char>(i));
  const uint32_t big = b.site(all, EventKind::range, all, {{all, ArgType::string}});
  const uint64_t text = b.string(all);
  b.track(1, all);
  for (int i = 0; i < 5; ++i) b.row(big, i * 10, i * 10 + 5, {text});
  CHECK(is_json_value(chrome_text(b.finish())));
}

// On every lane slices nest or follow each other, nothing is lost, and lanes are not wasted.
TEST(lanes_nest) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Capture capture = random_capture(seed, 200);
    const TrackLayout layout(capture);
    std::map<uint32_t, std::vector<std::pair<int64_t, int64_t>>> open;
    for (size_t row = 0; row < capture.size(); ++row) {
      CHECK(layout.lane_of(row) < layout.lanes().size());
      CHECK_EQ(layout.lanes()[layout.lane_of(row)].track, capture.track[row]);
      if (!is_any_range(capture.kind[row])) continue;
      auto& stack = open[layout.lane_of(row)];
      const int64_t start = capture.start_ns[row], end = capture.end_ns[row];
      while (!stack.empty() && stack.back().second <= start) stack.pop_back();
      CHECK(stack.empty() || end <= stack.back().second);
      if (!is_nesting_range(capture, row)) CHECK(stack.empty());
      stack.emplace_back(start, end);
    }
    std::map<int64_t, int> tids;
    for (const TraceLane& lane : layout.lanes()) CHECK_EQ(++tids[lane.tid], 1);
  }
}

TEST(a_file_appears_whole) {
  TemporaryFolder folder;
  const std::string path = folder.path + "/trace.json";
  const uint64_t bytes = write_chrome_trace(rich_capture(), path);
  CHECK_EQ(contents(path).size(), bytes);
  CHECK(has(contents(path), "\"traceName\": \"" + path + "\""));
  CHECK_EQ(folder.names().size(), size_t{1});
  // Over a link: the link stays, its target is replaced and keeps its mode.
  const std::string link = folder.path + "/link.json";
  CHECK_EQ(symlink(path.c_str(), link.c_str()), 0);
  chmod(path.c_str(), 0640);
  write_chrome_trace(random_capture(1), link.c_str());
  struct stat info;
  CHECK(lstat(link.c_str(), &info) == 0 && S_ISLNK(info.st_mode));
  CHECK(stat(path.c_str(), &info) == 0 && (info.st_mode & 0777) == 0640);
  CHECK(is_json_value(contents(path)));
  CHECK_EQ(write_chrome_trace(rich_capture(), "/dev/null") > 0, true);
}

TEST(a_replaced_file_keeps_its_mode_from_the_first_byte) {
  TemporaryFolder folder;
  const std::string path = folder.path + "/secret.json";
  write_chrome_trace(rich_capture(), path);
  chmod(path.c_str(), 0600);
  {
    TraceFile file(path);
    for (const std::string& name : folder.names()) {
      struct stat info;
      CHECK_EQ(stat((folder.path + '/' + name).c_str(), &info), 0);
      CHECK_EQ(info.st_mode & 0777, mode_t{0600});
    }
    CHECK_EQ(folder.names().size(), size_t{2});
  }
  const mode_t before = umask(0077);
  write_chrome_trace(rich_capture(), folder.path + "/new.json");
  umask(before);
  struct stat info;
  CHECK(stat((folder.path + "/new.json").c_str(), &info) == 0 && (info.st_mode & 0777) == 0600);
}

TEST(failures_leave_what_was_there) {
  CHECK_THROWS(IoError, write_chrome_trace(rich_capture(), "/no/such/folder/trace.json"));
  CHECK_THROWS(IoError, write_chrome_trace(rich_capture(), "/tmp"));
  CHECK_THROWS(IoError, write_chrome_trace(rich_capture(), "/dev/full"));
  TemporaryFolder folder;
  const std::string path = folder.path + "/trace.json";
  std::ofstream(path) << "old";
  const std::string message = message_of<IoError>([&] {
    const process_changes::FileLimit limit(1000);
    write_chrome_trace(rich_capture(), path);
  });
  CHECK(has(message, "File too large"));
  CHECK(has(message, "Free space"));
  CHECK_EQ(contents(path), std::string("old"));
  CHECK_EQ(folder.names().size(), size_t{1});
  std::ofstream closed;  // writes to it fail
  closed.setstate(std::ios::badbit);
  CHECK_THROWS(IoError, write_chrome_trace(rich_capture(), closed));
  Capture bad = rich_capture();
  bad.site[0] = 1000;
  CHECK_THROWS(ValueError, write_chrome_trace(bad, path));
  CHECK_EQ(contents(path), std::string("old"));
}
