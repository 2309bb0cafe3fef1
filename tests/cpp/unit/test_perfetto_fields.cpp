// SPDX-License-Identifier: Apache-2.0
// Arguments in Perfetto traces, as FIELD:VALUE with the field numbers of Perfetto's published
// debug_annotation.proto.
#include <limits>
#include <map>
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

std::string trace_of(const Capture& capture, const PerfettoTraceOptions& options = {}) {
  std::ostringstream out;
  write_perfetto_trace(capture, out, options);
  return out.str();
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
