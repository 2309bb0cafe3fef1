// SPDX-License-Identifier: Apache-2.0
// The bytes of Perfetto traces by the numbers of Perfetto's published protos
// (protos/perfetto/trace, chiefly trace_packet.proto, track_event.proto, debug_annotation.proto):
// whole small traces, and every kind of argument.
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "capture_builder.hpp"
#include "check.hpp"
#include "fastprof/export/perfetto_trace.hpp"
#include "fastprof/payload/op_inputs/input_words.hpp"
#include "protobuf_fields.hpp"
#include "rich_capture.hpp"

using namespace fastprof;
using fastprof_test::CaptureBuilder;
using fastprof_test::word_of;
using namespace protobuf_fields;

namespace {

// Numbers of the fields that are messages, from the packet inwards.
const std::set<std::string> kMessages = {
    ".6",  ".6.1",                      // clock_snapshot, clocks
    ".11", ".11.4",                     // track_event, debug_annotations
    ".12", ".12.1",  ".12.2", ".12.4",  // interned_data: categories, event names, locations
    ".59", ".59.11",                    // trace_packet_defaults, track_event_defaults
    ".60", ".60.3",  ".60.4", ".60.8",  // track_descriptor: process, thread, counter
};

// Every field as NUMBER:VALUE, 64-bit words as NUMBER#VALUE, texts in quotes, messages in braces.
// The names of arguments, which are many, are left out.
std::string shown(std::string_view message, const std::string& path = "") {
  std::string text;
  for (const Field& field : fields_of(message)) {
    const std::string inner = path + '.' + std::to_string(field.id);
    if (inner == ".12.3") continue;
    if (!text.empty()) text += ' ';
    text += std::to_string(field.id);
    if (field.wire == 0) text += ':' + std::to_string(field.number);
    if (field.wire == 1) text += '#' + std::to_string(field.number);
    if (field.wire != 2) continue;
    if (kMessages.count(inner) != 0)
      text += '{' + shown(field.bytes, inner) + '}';
    else
      text += '"' + std::string(field.bytes) + '"';
  }
  return text;
}

std::string trace_of(const Capture& capture, const PerfettoTraceOptions& options = {}) {
  std::ostringstream out;
  write_perfetto_trace(capture, out, options);
  return out.str();
}

// All packets, one a line.
std::string lines_of(const Capture& capture) {
  const std::string trace = trace_of(capture);
  std::string text;
  for (const Field& packet : fields_of(trace)) {
    CHECK_EQ(packet.id, 1u);
    text += shown(packet.bytes) + '\n';
  }
  return text;
}

// A capture whose ids are small: they count from those of process 0 and time 0.
CaptureBuilder small_builder() {
  CaptureBuilder b(0, 1000);
  b.capture.pid = 0;
  return b;
}

std::string text_of_annotation(std::string_view annotation) {
  std::string text;
  for (const Field& field : fields_of(annotation)) {
    if (field.id == 1) continue;  // the name
    if (!text.empty()) text += ',';
    text += std::to_string(field.id) + (field.wire == 1 ? '#' : ':');
    if (field.id == 12)  // an array
      text += '[' + text_of_annotation(field.bytes) + ']';
    else
      text += field.wire == 2 ? std::string(field.bytes) : std::to_string(field.number);
  }
  return text;
}

// The arguments of the nth event of a packet sequence (2: lane 0), as NAME=FIELD:VALUE; with the
// ids of names resolved.
std::string args_of(const Capture& capture, size_t nth = 0,
                    const PerfettoTraceOptions& options = {}, uint64_t sequence = 2) {
  const std::string trace = trace_of(capture, options);
  std::map<uint64_t, std::string> names;
  size_t seen = 0;
  for (const Field& packet : fields_of(trace)) {
    const std::vector<Field> fields = fields_of(packet.bytes);
    bool own = false;
    for (const Field& field : fields) own = own || (field.id == 10 && field.number == sequence);
    if (!own) continue;
    for (const Field& field : fields) {
      if (field.id == 12) {
        for (const Field& entry : fields_of(field.bytes)) {
          if (entry.id != 3) continue;
          const std::vector<Field> parts = fields_of(entry.bytes);
          CHECK(parts.size() == 2 && parts[0].id == 1 && parts[1].id == 2);
          names[parts[0].number] = std::string(parts[1].bytes);
        }
      }
      if (field.id != 11 || seen++ != nth) continue;
      std::string text;
      for (const Field& part : fields_of(field.bytes)) {
        if (part.id != 4) continue;
        const std::vector<Field> name = fields_of(part.bytes);
        CHECK(!name.empty() && name[0].id == 1);
        text += names[name[0].number] + '=' + text_of_annotation(part.bytes) + ';';
      }
      return text;
    }
  }
  return "no such event";
}

// The arguments of one range with these details.
std::string args_of_details(CaptureBuilder b, const std::vector<uint64_t>& words,
                            const PerfettoTraceOptions& options = {}) {
  const uint32_t site = b.site("x");
  b.track(1, "main");
  std::vector<uint64_t> all{words.size()};
  all.insert(all.end(), words.begin(), words.end());
  b.row(site, 0, 10, all, event_flag::detail);
  return args_of(b.finish(), 0, options);
}

}  // namespace

TEST(a_whole_trace_of_one_thread) {
  CaptureBuilder b = small_builder();
  const uint32_t range = b.site("range"), mark = b.site("mark", EventKind::mark);
  b.capture.sites[mark].file = "";
  b.track(7, "main");
  b.row(range, 10, 300);
  b.instant(mark, 20);
  b.capture.clock_error_ns = 17;
  b.capture.exact_stop = false;
  b.capture.clamped = 5;
  b.capture.dropped[static_cast<size_t>(DropCause::bound)] = 3;
  b.capture.dropped[static_cast<size_t>(DropCause::names)] = 2;  // not missing
  CHECK_EQ(lines_of(b.finish()),
           "10:1 13:1 6{1{1:1 2:0} 2:1}\n"
           "10:1 60{1:1 3{1:0 6\"trainer\"}}\n"
           "8:0 58:1 10:1 11{9:3 11:1 23\"fastprof session\" 4{10\"session_start_ns\" 4:0} "
           "4{10\"session_stop_ns\" 4:1000} 4{10\"clock_error_ns\" 4:17} 4{10\"exact_stop\" 4:0} "
           "4{10\"clamped\" 4:5} 4{10\"dropped\" 4:3} 4{10\"dropped_bound\" 4:3} "
           "4{10\"dropped_names\" 4:2}}\n"
           "10:2 60{1:268435456 5:1 4{1:0 2:7 5\"main\"}}\n"
           "10:2 13:1 59{58:64 11{11:268435456}} "
           "12{1{1:1 2\"user_annotation\"} 2{1:1 2\"range\"} "
           "4{1:1 2\"train.cpp\" 3\"train\" 4:40} 1{1:2 2\"user_annotation\"} 2{1:2 2\"mark\"}} "
           "6{1{1:64 2:0 3:1} 1{1:1 2:10}}\n"
           "8:0 11{9:1 3:1 10:1 34:1} 10:2 13:2\n"
           "8:10 11{9:3 3:2 10:2} 10:2 13:2\n"
           "8:280 11{9:2} 10:2 13:2\n");
}

TEST(counters_and_arrows) {
  CaptureBuilder b = small_builder();
  const auto counter = [&](const char* name, std::vector<std::pair<std::string, ArgType>> type) {
    return b.site(name, EventKind::counter, "counter", std::move(type));
  };
  const uint32_t whole = counter("whole", {{"v", ArgType::int64}}),
                 real = counter("real", {{"v", ArgType::float64}}),
                 count = counter("count", {{"v", ArgType::uint64}}), plain = counter("plain", {}),
                 again = counter("whole", {{"v", ArgType::int64}});
  const uint32_t out = b.site("out", EventKind::flow_begin, "flow"),
                 in = b.site("in", EventKind::flow_end, "flow");
  for (SiteInfo& site : b.capture.sites) site.file = "";
  b.track(7, "main");
  b.instant(whole, 0, {static_cast<uint64_t>(-3)});
  b.instant(real, 1, {word_of(0.5)});
  b.instant(count, 2, {INT64_MAX});
  b.instant(count, 3, {uint64_t{1} << 63});
  b.instant(plain, 4, {9});
  b.instant(again, 5, {1});
  b.instant(whole, 6);  // without a value
  b.instant(out, 7, {77});
  b.instant(in, 8, {77});
  b.instant(out, 9);
  const std::string text = lines_of(b.finish());
  const size_t descriptors = text.find("10:1 60{1:549755813888");
  CHECK_EQ(text.substr(descriptors, text.find("8:0 58:1") - descriptors),
           "10:1 60{1:549755813888 5:1 2\"whole\" 8{}}\n"
           "10:1 60{1:549755813889 5:1 2\"real\" 8{}}\n"
           "10:1 60{1:549755813890 5:1 2\"count\" 8{}}\n"
           "10:1 60{1:549755813891 5:1 2\"plain\" 8{}}\n");
  CHECK_EQ(text.substr(text.find("8:0 11{")),
           "8:0 11{9:4 11:549755813888 30:18446744073709551613} 10:2 13:2\n"
           "8:1 11{9:4 11:549755813889 44#4602678819172646912} 10:2 13:2\n"
           "8:1 11{9:4 11:549755813890 30:9223372036854775807} 10:2 13:2\n"
           "8:1 11{9:4 11:549755813890 44#4890909195324358656} 10:2 13:2\n"
           "8:1 11{9:4 11:549755813891 30:9} 10:2 13:2\n"
           "8:1 11{9:4 11:549755813888 30:1} 10:2 13:2\n"
           "8:2 11{9:3 3:6 10:6 47#77} 10:2 13:2\n"
           "8:1 11{9:3 3:7 10:7 48#77} 10:2 13:2\n");
}

TEST(lanes_say_where_they_belong) {
  CaptureBuilder b = small_builder();
  const uint32_t range = b.site("range"), async = b.site("async", EventKind::async_range);
  b.track(7, "main");
  b.row(range, 0, 10);
  b.row(async, 1, 5);
  b.row(range, 5, 15);
  b.capture.tracks[b.track(50, "task 1")].thread_id = 1;
  b.capture.tracks[b.track(51, "lost task")].thread_id = 99;
  b.capture.tracks[b.track(7, "other")].pid = 20;
  b.capture.process_names = {{20, "loader"}};
  const uint32_t queue = b.track(3, ""), other_queue = b.track(4, "copies");
  for (const uint32_t track : {queue, other_queue}) {
    b.capture.tracks[track].pid = 1002;
    b.capture.tracks[track].device_index = 2;
    b.capture.tracks[track].device_kind = "npu";
  }
  const uint32_t foreign = b.track(0, "theirs");
  b.capture.tracks[foreign].pid = 100020001;  // device 1 of process 20
  b.capture.tracks[foreign].device_index = 1;
  b.capture.tracks[b.track(7, "reused")].pid = 30;
  const std::string text = lines_of(b.finish());
  std::string tracks;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.find(" 60{") != std::string::npos) tracks += line + '\n';
  CHECK_EQ(tracks,
           "10:1 60{1:1 3{1:0 6\"trainer\"}}\n"
           "10:1 60{1:351843720888321 3{1:20 6\"loader\"}}\n"
           "10:1 60{1:527765581332481 3{1:30}}\n"
           "10:1 60{1:274877907946 5:1 2\"npu 2\"}\n"
           "10:1 60{1:274977926945 5:351843720888321 2\"GPU 1\"}\n"
           "10:2 60{1:268435456 5:1 4{1:0 2:7 5\"main\"}}\n"
           "10:3 60{1:268435457 5:268435456 2\"task 1\"}\n"
           "10:4 60{1:268435458 5:1 2\"lost task\"}\n"
           "10:5 60{1:268435459 5:351843720888321 2\"other (tid 7)\"}\n"
           "10:6 60{1:268435460 5:274877907946 2\"stream 3\"}\n"
           "10:7 60{1:268435461 5:274877907946 2\"copies\"}\n"
           "10:8 60{1:268435462 5:274977926945 2\"theirs\"}\n"
           "10:9 60{1:268435463 5:527765581332481 2\"reused (tid 7)\"}\n"
           "10:10 60{1:268435464 5:268435456 2\"main: async 0\"}\n"
           "10:11 60{1:268435465 5:268435456 2\"main: overlapping 0\"}\n");
}

TEST(arguments_of_every_type) {
  CaptureBuilder b;
  const uint32_t site = b.site("x", EventKind::range, "user_annotation",
                               {{"i", ArgType::int64},
                                {"u", ArgType::uint64},
                                {"f", ArgType::float64},
                                {"yes", ArgType::boolean},
                                {"no", ArgType::boolean},
                                {"s", ArgType::string},
                                {"none", ArgType::string},
                                {"p", ArgType::pointer}});
  b.track(1, "main");
  const uint64_t text = b.string("text");
  b.row(site, 0, 10, {static_cast<uint64_t>(-1), 8, word_of(0.5), 7, 0, text, 99, 4096});
  CHECK_EQ(args_of(b.finish()),
           "i=4:18446744073709551615;u=3:8;f=5#4602678819172646912;yes=2:1;no=2:0;s=6:text;"
           "none=6:(no such string);p=7:4096;");
}

TEST(arguments_say_how_a_range_ended) {
  CaptureBuilder b;
  const uint32_t range = b.site("x"), async = b.site("a", EventKind::async_range),
                 mark = b.site("m", EventKind::mark);
  b.track(1, "main");
  const size_t moved = b.row(range, 0, 10);
  b.row(async, 1, 2);
  b.row(range, 3, 4, {}, event_flag::clock_discontinuity);
  b.row(range, 5, 6, {}, event_flag::clamped | event_flag::enclosing);
  b.instant(mark, 7);
  b.capture.flags.back() = 0;  // no range: nothing is unfinished
  b.row(range, 8, -1);
  b.track(77, "other");
  b.ended_on(moved, 1);
  const Capture capture = b.finish();
  const char* const expected[] = {"clock_discontinuity=2:1;",
                                  "",  // an end
                                  "clamped=2:1;enclosing=2:1;",
                                  "",  // an end
                                  "",  // the mark
                                  "finished=2:0;"};
  for (size_t i = 0; i < 6; ++i) CHECK_EQ(args_of(capture, i), std::string(expected[i]));
  // The first two rows have lanes of their own, behind those of the threads.
  CHECK_EQ(args_of(capture, 0, {}, 4), std::string("is_async=2:1;End thread=4:77;"));
  CHECK_EQ(args_of(capture, 0, {}, 5), std::string("is_async=2:1;"));
}

TEST(arguments_of_memory) {
  CaptureBuilder b;
  const uint32_t memory = b.site("[memory]", EventKind::memory),
                 oom = b.site("[OutOfMemory]", EventKind::out_of_memory);
  b.capture.sites[memory].device_index = 0;
  b.capture.sites[memory].function = "";
  b.capture.sites[oom].device_type = 1;
  b.capture.sites[oom].device_index = 2;
  b.capture.sites[oom].function = "python";
  b.track(1, "main");
  b.instant(memory, 0, {4096, static_cast<uint64_t>(-8), 16, 32});
  b.instant(oom, 1, {64, 16, 32});
  b.instant(memory, 2);  // without its words
  const Capture capture = b.finish();
  CHECK_EQ(args_of(capture, 0),
           "Addr=7:4096;Bytes=4:18446744073709551608;Total Allocated=4:16;Total Reserved=4:32;"
           "Device Type=4:0;Device Id=4:0;");
  CHECK_EQ(args_of(capture, 1),
           "Bytes=4:64;Total Allocated=4:16;Total Reserved=4:32;Device Type=4:1;Device Id=4:2;"
           "Allocator=6:python;");
  CHECK_EQ(args_of(capture, 2), "Device Type=4:0;Device Id=4:0;");
}

TEST(arguments_of_details) {
  CaptureBuilder b;
  const uint64_t text = b.string("text"), json = b.string("{\"k\": 1}"),
                 broken = b.string("{\"k\"");
  const auto block = [](DetailType type, uint32_t count) { return detail_block_word(type, count); };
  CHECK_EQ(args_of_details(b, {block(DetailType::json, 1), json}), "metadata=9:{\"k\": 1};");
  CHECK_EQ(args_of_details(b, {block(DetailType::json, 1), broken}), "metadata=6:{\"k\";");
  CHECK_EQ(args_of_details(b, {block(DetailType::python_stack, 1), text}), "Call stack=6:text;");
  CHECK_EQ(args_of_details(b, {block(DetailType::modules, 1), text}), "Module Hierarchy=6:text;");
  CHECK_EQ(args_of_details(b, {block(DetailType::overload, 1), text}), "Overload name=6:text;");
  for (const DetailType type : {DetailType::json, DetailType::python_stack, DetailType::modules,
                                DetailType::overload, DetailType::nothing})
    CHECK_EQ(args_of_details(b, {block(type, 0), block(DetailType::modules, 1), text}),
             "Module Hierarchy=6:text;");
  CHECK_EQ(args_of_details(b, {block(DetailType::cpp_stack, 2), 16, 17}),
           "C++ stack=12:[7:16],12:[7:17];");
  PerfettoTraceOptions options;
  options.frame_name = [](uint64_t address) { return "f" + std::to_string(address); };
  CHECK_EQ(args_of_details(b, {block(DetailType::cpp_stack, 2), 16, 17}, options),
           "C++ stack=12:[6:f16],12:[6:f17];");
}

TEST(arguments_of_counters) {
  CaptureBuilder b;
  b.capture.counter_names = {"cycles"};
  const auto begin = [](uint32_t flags) {
    return detail_block_word(DetailType::counters_begin, 3, flags);
  };
  const uint64_t end = detail_block_word(DetailType::counters_end, 3, detail_flag::written);
  const uint32_t written = detail_flag::written;
  CHECK_EQ(args_of_details(b, {begin(written), 100, 0, 0, end, 350, 90, 90}), "cycles=4:250;");
  CHECK_EQ(args_of_details(b, {begin(written), 100, 0, 0, end, 350, 80, 40}),
           "cycles=4:500;counted_fraction=5#4602678819172646912;");
  CHECK_EQ(args_of_details(b, {begin(written), 100, 0, 0, end, 350, 80, 0}),
           "counters=6:not counted: the CPU's counters were in use by others;");
  CHECK_EQ(args_of_details(b, {begin(detail_flag::unavailable), 0, 0, 0}),
           "counters=6:unavailable on this thread;");
  CHECK_EQ(args_of_details(b, {begin(written), 100, 0, 0}), "");  // still open
  // Values without a name are left out.
  b.capture.counter_names = {};
  CHECK_EQ(args_of_details(b, {begin(written), 100, 0, 0, end, 350, 90, 90}), "");
}

TEST(arguments_of_inputs) {
  std::vector<uint64_t> words(100);
  InputWords put(words.data(), 100);
  put.put_integer(3);
  put.put_text("stream", 6);
  put.put_integer(7);
  put.put_text("a \"b\"", 5);
  put.put_integer(8);
  const uint32_t count = InputWords::finish(words.data(), put.position(), 1, 2, 1);
  words.resize(count);
  words.insert(words.begin(), detail_block_word(DetailType::op_inputs, count));
  CHECK_EQ(args_of_details(CaptureBuilder(), words),
           "Input Dims=9:[[]];Input Strides=9:[[]];Input type=9:[\"Scalar\"];"
           "Concrete Inputs=9:[\"3\"];Keyword Inputs=9:{\"stream\": 7, \"a \\\"b\\\"\": 8};");
}

// The node inside an engine's range, whose first number is 0.
TEST(arguments_of_an_engine_range) {
  CaptureBuilder b;
  const uint32_t engine = b.site("autograd::engine::evaluate_function: MulBackward0"),
                 backward = b.site("MulBackward0");
  b.track(1, "main");
  b.row(engine, 0, 10);
  b.row(backward, 1, 9, {5, detail_block_word(DetailType::op, 4), 0, 1, 0, 6}, event_flag::detail);
  const Capture capture = b.finish();
  CHECK_EQ(args_of(capture, 0), "Sequence number=4:0;Fwd thread id=4:1;");
  CHECK_EQ(args_of(capture, 1), "Sequence number=4:0;Fwd thread id=4:1;Node id=4:6;");
}
