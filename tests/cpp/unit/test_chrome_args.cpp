// SPDX-License-Identifier: Apache-2.0
// The args of Chrome trace events, each as its whole text: values of every type, calls of Python
// functions, details, counters, and names that are in use already.
#include <sstream>
#include <string>
#include <vector>

#include "capture_builder.hpp"
#include "check.hpp"
#include "fastprof/export/chrome_trace.hpp"
#include "fastprof/payload/op_inputs/input_words.hpp"

using namespace fastprof;
using fastprof_test::CaptureBuilder;
using fastprof_test::word_of;

namespace {

using Part = ChromeTraceOptions::KinetoPart;

// The args of all slices, marks and counters, in order of rows.
std::vector<std::string> all_args(const Capture& capture, ChromeTraceOptions options = {}) {
  if (options.event_ids == Part::automatic) options.event_ids = Part::never;
  options.window_marks = Part::never;
  std::ostringstream out;
  write_chrome_trace(capture, out, options);
  CHECK(is_json_value(out.str()));
  std::istringstream lines(out.str());
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, 6, "{\"ph\":") != 0 || line[7] == 'M') continue;
    const size_t begin = line.find(",\"args\":{");
    if (begin == std::string::npos) continue;
    const size_t end = line.rfind("}}");
    found.push_back(line.substr(begin + 9, end - begin - 9));
  }
  return found;
}

// The args of one range with these details.
std::string args_of_details(CaptureBuilder b, const std::vector<uint64_t>& words,
                            const ChromeTraceOptions& options = {}) {
  const uint32_t site = b.site("x");
  b.track(1, "main");
  std::vector<uint64_t> all{words.size()};
  all.insert(all.end(), words.begin(), words.end());
  b.row(site, 0, 10, all, event_flag::detail);
  const std::vector<std::string> args = all_args(b.finish(), options);
  return args.size() == 1 ? args[0] : "not one event";
}

std::string call(int caller, int number) {
  return "\"Python parent id\":" + (caller == 0 ? "null" : std::to_string(caller)) +
         ",\"Python id\":" + std::to_string(number);
}

}  // namespace

TEST(calls_of_python_functions_are_numbered_and_know_their_caller) {
  CaptureBuilder b;
  const uint32_t f = b.site("a.py(1): f", EventKind::range, "python_function"),
                 other = b.site("other");
  b.track(1, "first");
  b.row(f, 0, 1000);  // around the times of the next thread, too
  b.track(2, "second");
  b.row(f, 0, 100);
  b.row(f, 10, 50);
  b.row(other, 20, 200);  // outlives the calls that it began in
  b.row(f, 30, 40);
  b.row(f, 50, 60);
  b.row(f, 60, 70);
  b.row(f, 300, 400);
  b.row(f, 310, 320);
  b.track(3, "third");
  b.row(f, 315, 316);
  b.row(f, 315, 316);
  CHECK(all_args(b.finish()) ==
        (std::vector<std::string>{call(0, 1), call(0, 2), call(2, 3), "", call(3, 4), call(2, 5),
                                  call(2, 6), call(0, 7), call(7, 8), call(0, 9), call(9, 10)}));
  ChromeTraceOptions options;
  options.call_stacks = true;
  const std::vector<std::string> found = all_args(b.finish(), options);
  const auto thread = [](int number) {
    return "\"Python thread\":" + std::to_string(number) + ",";
  };
  const std::string f1 = ",\"Call stack\":\"a.py(1): f", end = "\"";
  CHECK_EQ(found[0], thread(0) + call(0, 1));
  CHECK_EQ(found[2], thread(1) + call(2, 3) + f1 + end);
  CHECK_EQ(found[4], thread(1) + call(3, 4) + f1 + ";a.py(1): f" + end);
  CHECK_EQ(found[5], thread(1) + call(2, 5) + f1 + end);
  CHECK_EQ(found[10], thread(2) + call(9, 10) + f1 + end);
}

TEST(modules_have_the_number_at_the_end_of_their_name) {
  const char* const names[] = {
      "nn.Module: Linear_0", "nn.Module: My_Net_12", "nn.Module: Linear_",
      "nn.Module: Linear",   "nn.Module: Linear_a1", "nn.Module: Linear_1a",
      "a.py(1): f_3",        "nn.Modules: Linear_4", "nn.Module: 5"};
  const char* const ids[] = {"0", "12", "", "", "", "", "", "", ""};
  CaptureBuilder b;
  b.track(1, "main");
  for (int i = 0; i < 9; ++i)
    b.row(b.site(names[i], EventKind::range, "python_function"), i * 10, i * 10 + 5);
  const std::vector<std::string> args = all_args(b.finish());
  CHECK_EQ(args.size(), 9u);
  for (int i = 0; i < 9; ++i) {
    const std::string id = ids[i];
    CHECK_EQ(args[static_cast<size_t>(i)],
             call(0, i + 1) + (id.empty() ? "" : ",\"Python module id\":" + id));
  }
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
                                {"p", ArgType::pointer},
                                {"null", ArgType::pointer},
                                {"unknown", static_cast<ArgType>(99)}});
  const uint32_t yes = b.site("yes", EventKind::counter, "counter", {{"v", ArgType::boolean}}),
                 plain = b.site("plain", EventKind::counter, "counter");
  b.track(1, "main");
  b.row(site, 0, 10, {static_cast<uint64_t>(-1), UINT64_MAX, word_of(0.5), 7, 0, 99, 4096, 0, 1});
  b.instant(yes, 20, {7});  // counters are numbers
  b.instant(yes, 21, {0});
  b.instant(plain, 22, {static_cast<uint64_t>(-5)});
  b.instant(plain, 23);  // has no value, and is left out
  CHECK(all_args(b.finish()) ==
        (std::vector<std::string>{
            "\"i\":-1,\"u\":18446744073709551615,\"f\":0.5,\"yes\":true,\"no\":false,"
            "\"s\":\"(no such string)\",\"p\":\"0x1000\",\"null\":\"0x0\",\"unknown\":null",
            "\"value\":1", "\"value\":0", "\"value\":-5"}));
}

TEST(arguments_say_how_a_range_ended) {
  CaptureBuilder b;
  const uint32_t range = b.site("x"), async = b.site("a", EventKind::async_range),
                 mark = b.site("m", EventKind::mark);
  b.track(1, "main");
  const size_t moved = b.row(range, 0, 10);
  b.row(async, 1, 2);
  b.row(range, 3, 4, {}, event_flag::clock_discontinuity);
  b.row(range, 5, 6, {}, event_flag::clamped);
  b.row(range, 6, 7, {}, event_flag::enclosing);
  b.instant(mark, 7);
  b.capture.flags.back() = 0;  // no range: nothing is unfinished
  const size_t lost = b.row(range, 8, 9, {}, event_flag::cross_thread_end);
  b.row(range, 10, -1);
  b.track(77, "other");
  b.ended_on(moved, 1);
  const Capture& capture = b.finish();
  CHECK(capture.ending_track(lost) == nullptr);
  CHECK(all_args(capture) ==
        (std::vector<std::string>{"\"is_async\":true,\"End thread\":77", "\"is_async\":true",
                                  "\"clock_discontinuity\":true", "\"clamped\":true",
                                  "\"enclosing\":true", "", "\"is_async\":true",
                                  "\"finished\":false"}));
}

TEST(arguments_of_details) {
  CaptureBuilder b;
  const uint64_t text = b.string("inner\nouter"), json = b.string("{\"k\": 1}"),
                 broken = b.string("[1]"), nothing = b.string("{}");
  const auto block = [](DetailType type, uint32_t count) { return detail_block_word(type, count); };
  const std::string modules = "\"Module Hierarchy\":\"inner\\nouter\"";
  CHECK_EQ(args_of_details(b, {block(DetailType::json, 1), json}), "\"k\": 1");
  CHECK_EQ(args_of_details(b, {block(DetailType::json, 1), broken}), "\"metadata_json\":\"[1]\"");
  CHECK_EQ(args_of_details(b, {block(DetailType::json, 1), nothing}), "");
  CHECK_EQ(args_of_details(b, {block(DetailType::python_stack, 1), text}),
           "\"Call stack\":\"inner;outer\"");
  CHECK_EQ(args_of_details(b, {block(DetailType::modules, 1), text}), modules);
  CHECK_EQ(args_of_details(b, {block(DetailType::overload, 1), text}),
           "\"Overload name\":\"inner\\nouter\"");
  for (const DetailType type : {DetailType::json, DetailType::python_stack, DetailType::modules,
                                DetailType::overload, DetailType::nothing})
    CHECK_EQ(args_of_details(b, {block(type, 0), block(DetailType::modules, 1), text}), modules);
  CHECK_EQ(args_of_details(b, {block(DetailType::cpp_stack, 2), 16, 17}),
           "\"C++ stack\":[\"0x10\",\"0x11\"]");
  CHECK_EQ(args_of_details(b, {block(DetailType::cpp_stack, 0)}), "\"C++ stack\":[]");
  ChromeTraceOptions options;
  options.frame_name = [](uint64_t address) { return "f" + std::to_string(address); };
  CHECK_EQ(args_of_details(b, {block(DetailType::cpp_stack, 2), 16, 16}, options),
           "\"C++ stack\":[\"f16\",\"f16\"]");
}

TEST(arguments_of_counters) {
  CaptureBuilder b;
  b.capture.counter_names = {"cycles"};
  const auto begin = [](uint32_t flags) {
    return detail_block_word(DetailType::counters_begin, 3, flags);
  };
  const uint64_t end = detail_block_word(DetailType::counters_end, 3, detail_flag::written);
  const uint32_t written = detail_flag::written;
  CHECK_EQ(args_of_details(b, {begin(written), 100, 0, 0, end, 350, 90, 90}), "\"cycles\":250");
  CHECK_EQ(args_of_details(b, {begin(written), 100, 0, 0, end, 350, 80, 40}),
           "\"cycles\":500,\"counted_fraction\":0.5");
  CHECK_EQ(args_of_details(b, {begin(written), 100, 0, 0, end, 350, 80, 0}),
           "\"counters\":\"not counted: the CPU's counters were in use by others\"");
  CHECK_EQ(args_of_details(b, {begin(detail_flag::unavailable), 0, 0, 0}),
           "\"counters\":\"unavailable on this thread\"");
  CHECK_EQ(args_of_details(b, {begin(written), 100, 0, 0}), "");  // still open
  b.capture.counter_names = {};  // values without a name are left out
  CHECK_EQ(args_of_details(b, {begin(written), 100, 0, 0, end, 350, 90, 90}), "");
}

TEST(keywords_are_arguments_under_names_of_their_own) {
  std::vector<uint64_t> words(100);
  InputWords put(words.data(), 100);
  put.put_text("stream", 6);
  put.put_integer(7);
  put.put_text("Ev Idx", 6);
  put.put_integer(8);
  const uint32_t count = InputWords::finish(words.data(), put.position(), 0, 2, 0);
  words.resize(count);
  words.insert(words.begin(), detail_block_word(DetailType::op_inputs, count));
  CHECK_EQ(args_of_details(CaptureBuilder(), words), "\"stream\":7,\"Ev Idx_\":8");
}
