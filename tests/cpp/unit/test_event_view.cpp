// SPDX-License-Identifier: Apache-2.0
// events(): a program reads a session row by row, with a single include.
#include <cstdint>
#include <fastprof/fastprof.hpp>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "capture_builder.hpp"
#include "check.hpp"
#include "fastprof/payload/perf_counters/counter_probe.hpp"

using namespace fastprof;

namespace {

EventView find(const Session& session, const std::string& name, EventKind kind = EventKind::range) {
  for (const EventView event : session.events())
    if (event.name() == name && event.kind() == kind) return event;
  CHECK(false);  // no such event
  return session.events()[0];
}

__attribute__((noinline)) void outer_function() {
  FASTPROF_RANGE("stack");
}

// A capture with one event of `kind`, whose site has arguments of these types.
Capture capture_of(EventKind kind, const std::vector<ArgType>& types,
                   const std::vector<uint64_t>& words, uint8_t flags = 0) {
  fastprof_test::CaptureBuilder made;
  std::vector<std::pair<std::string, ArgType>> args;
  for (const ArgType type : types) args.emplace_back("a" + std::to_string(args.size()), type);
  const uint32_t site = made.site("event", kind, "category", args);
  made.track(5, "thread");
  made.capture.strings = {"outer", "first(1): f\nsecond(2): g\n\nlast", ""};
  made.row(site, 10, 20, words, flags);
  return made.capture;
}

}  // namespace

TEST(arguments_are_converted_and_clamped) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  constexpr uint64_t highest = std::numeric_limits<uint64_t>::max();
  const auto real = [](double number, int64_t as_int, uint64_t as_uint) {
    const Capture capture =
        capture_of(EventKind::range, {ArgType::float64}, {fastprof_test::word_of(number)});
    const EventView event(capture, 0);
    CHECK_EQ(event.arg_int64(0), as_int);
    CHECK_EQ(event.arg_uint64(0), as_uint);
    CHECK(event.arg_number(0) == number || number != number);
  };
  real(2.75, 2, 2);
  real(-2.75, -2, 0);
  real(-0.5, 0, 0);
  real(0.0, 0, 0);
  real(9223372036854774784.0, 9223372036854774784, 9223372036854774784u);  // below 2^63
  real(9223372036854775808.0, most, 9223372036854775808u);
  real(-9223372036854774784.0, -9223372036854774784, 0);
  real(-9223372036854775808.0, least, 0);
  real(-1e300, least, 0);
  real(18446744073709549568.0, most, 18446744073709549568u);  // below 2^64
  real(18446744073709551616.0, most, highest);
  real(1e300, most, highest);
  real(std::numeric_limits<double>::infinity(), most, highest);
  real(-std::numeric_limits<double>::infinity(), least, 0);
  real(std::numeric_limits<double>::quiet_NaN(), 0, 0);
  const auto integer = [](ArgType type, uint64_t word, int64_t as_int, uint64_t as_uint,
                          double as_number) {
    const Capture capture = capture_of(EventKind::mark, {ArgType::int64, type}, {3, word});
    const EventView event(capture, 0);
    CHECK_EQ(event.arg_count(), 2);
    CHECK_EQ(event.arg_int64(1), as_int);
    CHECK_EQ(event.arg_uint64(1), as_uint);
    CHECK_EQ(event.arg_number(1), as_number);
    CHECK_EQ(event.arg_text(1), "");
  };
  integer(ArgType::int64, static_cast<uint64_t>(-5), -5, 0, -5.0);
  integer(ArgType::int64, 0, 0, 0, 0.0);
  integer(ArgType::uint64, uint64_t{1} << 63, most, uint64_t{1} << 63, 9223372036854775808.0);
  integer(ArgType::uint64, most, most, most, 9223372036854775808.0);
  integer(ArgType::pointer, highest, most, highest, 18446744073709551616.0);
  integer(ArgType::boolean, 1, 1, 1, 1.0);
  const Capture text = capture_of(EventKind::range, {ArgType::string}, {0});
  const EventView event(text, 0);
  CHECK(event.arg_int64(0) == 0 && event.arg_uint64(0) == 0 && event.arg_number(0) == 0);
  CHECK_EQ(event.arg_text(0), "outer");
}

TEST(a_stack_of_python_frames_comes_before_native_ones) {
  using Words = std::vector<uint64_t>;
  const auto stack = [](const Words& words, FrameName name = {}) {
    Capture capture = capture_of(EventKind::range, {}, words, event_flag::detail);
    return EventView(capture, 0).stack(std::move(name));
  };
  const uint64_t native = detail_block_word(DetailType::cpp_stack, 2);
  const uint64_t python = detail_block_word(DetailType::python_stack, 1);
  CHECK(stack({5, native, 0xAB, 0x10, python, 1}) ==
        (std::vector<std::string>{"first(1): f", "second(2): g", "", "last"}));
  CHECK(stack({5, native, 0xAB, 0x10, python, 0}) == (std::vector<std::string>{"outer"}));
  CHECK(stack({5, native, 0xAB, 0x10, python, 2}).empty());
  const FrameName number = [](uint64_t address) { return "at " + std::to_string(address); };
  const std::vector<std::string> named{"at 171", "at 16"};
  CHECK(stack({3, native, 0xAB, 0x10}, number) == named);
  const uint64_t none = detail_block_word(DetailType::python_stack, 0);
  CHECK(stack({4, none, native, 0xAB, 0x10}, number) == named);
  // The capture is of another process: there are no symbols.
  const std::vector<std::string> numbers = stack({3, native, 0xFFFFFFFFFFFFFFFF, 0x10});
  CHECK(numbers == (std::vector<std::string>{"0xffffffffffffffff", "0x10"}));
}

TEST(details_of_a_function) {
  Capture capture =
      capture_of(EventKind::range, {}, {5, detail_block_word(DetailType::op, 4), 7, 8, 9, 2},
                 event_flag::detail);
  capture.node_id = 6;
  const EventView event(capture, 0);
  CHECK_EQ(event.sequence_number(), 7);
  CHECK_EQ(event.forward_track(), 8);
  CHECK_EQ(event.node_id(), 2);
  CHECK_EQ(event.overload_name(), "");
  capture.payload_words[5] = 0;
  CHECK_EQ(event.node_id(), 0);
  capture.payload_words[5] = static_cast<uint64_t>(-1);
  CHECK_EQ(event.node_id(), 6);  // the process's
  Capture shorter = capture_of(EventKind::range, {}, {2, detail_block_word(DetailType::op, 1), 7},
                               event_flag::detail);
  shorter.node_id = 6;
  CHECK_EQ(EventView(shorter, 0).sequence_number(), 7);
  CHECK_EQ(EventView(shorter, 0).forward_track(), 0);
  CHECK_EQ(EventView(shorter, 0).node_id(), 6);
  const Capture named = capture_of(
      EventKind::range, {}, {2, detail_block_word(DetailType::overload, 1), 0}, event_flag::detail);
  CHECK_EQ(EventView(named, 0).overload_name(), "outer");
  const Capture unnamed = capture_of(
      EventKind::range, {}, {1, detail_block_word(DetailType::overload, 0)}, event_flag::detail);
  CHECK_EQ(EventView(unnamed, 0).overload_name(), "");
}

TEST(times_threads_scopes_and_flows) {
  Session session;
  session.start();
  {
    FASTPROF_RANGE("outer");
    {
      FASTPROF_RECORD_FUNCTION("first", sequence_number(7), node_id(2), overload_name("out"));
      FASTPROF_RANGE("innermost");
    }
    { FASTPROF_RANGE("second"); }
    FASTPROF_MARK("mark");
    FASTPROF_FLOW_BEGIN(41);
  }
  FASTPROF_FLOW_END(41);
  auto* handed_over = new RecordFunction;
  handed_over->before("handed over");
  int64_t other_tid = 0;
  std::thread([&] {
    delete handed_over;
    FASTPROF_RANGE("there");
    other_tid = current_track()->tid;
  }).join();
  const AsyncHandle async = FASTPROF_ASYNC_BEGIN("async");
  FASTPROF_ASYNC_END(async);
  session.stop();
  const EventView outer = find(session, "outer"), first = find(session, "first");
  const EventView second = find(session, "second"), innermost = find(session, "innermost");
  CHECK_EQ(outer.self_ns(), outer.duration_ns() - first.duration_ns() - second.duration_ns());
  CHECK_EQ(first.self_ns(), first.duration_ns() - innermost.duration_ns());
  CHECK_EQ(innermost.self_ns(), innermost.duration_ns());
  const Column<int64_t> all = self_times_ns(session.capture());
  for (size_t row = 0; row < all.size(); ++row) CHECK_EQ(session.events()[row].self_ns(), all[row]);
  CHECK(first.scope() == RecordScope::FUNCTION && outer.scope() == RecordScope::USER_SCOPE);
  CHECK_EQ(first.sequence_number(), 7);
  CHECK_EQ(outer.sequence_number(), -1);
  CHECK(outer.overload_name().empty() && outer.inputs().inputs.empty());
  CHECK_EQ(outer.end_track().id, outer.track().id);
  const EventView moved = find(session, "handed over");
  CHECK_EQ(moved.end_track().tid, other_tid);
  CHECK(moved.track().tid != other_tid && moved.is_async() && moved.self_ns() == 0);
  CHECK(find(session, "async", EventKind::async_range).is_async() && !outer.is_async());
  size_t flows = 0;
  for (const EventView event : session.events()) {
    const bool is_flow =
        event.kind() == EventKind::flow_begin || event.kind() == EventKind::flow_end;
    CHECK_EQ(event.flow_id(), is_flow ? 41u : 0u);
    flows += is_flow;
  }
  CHECK_EQ(flows, 2u);
  CHECK_EQ(find(session, "mark", EventKind::mark).duration_ns(), 0);
}

TEST(stacks_counters_and_memory) {
  SessionOptions options;
  options.cpp_stacks = true;
  if (probe_counters({"task-clock"}).available) options.counters = {"task-clock"};
  Session session(options);
  session.start();
  outer_function();
  int block = 0;
  report_memory_usage(&block, 64, 100, 200, Device{DeviceType::CPU, -1});
  report_memory_usage(&block, -64, 36, 200, Device{DeviceType::CPU, -1});
  report_out_of_memory(1 << 20, 36, 200, Device{DeviceType::CUDA, 1});
  session.stop();
  const EventView range = find(session, "stack");
  CHECK(range.cpp_stack().count > 0);
  const std::vector<std::string> frames = range.stack();
  CHECK_EQ(frames.size(), size_t{range.cpp_stack().count});
  bool named = false;
  for (const std::string& frame : frames) named |= frame.find("main") != std::string::npos;
  CHECK(named);
  CHECK(range.stack([](uint64_t) { return std::string("frame"); }).at(0) == "frame");
  const CounterDeltas counters = range.counters();
  if (options.counters.empty())
    CHECK(counters.status == CounterStatus::none);
  else
    CHECK(counters.status == CounterStatus::counted && counters.delta[0] > 0);
  std::vector<MemoryReport> reports;
  for (const EventView event : session.events())
    if (event.kind() == EventKind::memory || event.kind() == EventKind::out_of_memory)
      reports.push_back(event.memory());
  CHECK_EQ(reports.size(), 3u);
  CHECK_EQ(reports[0].size_bytes, 64);
  CHECK_EQ(reports[0].address, reinterpret_cast<uintptr_t>(&block));
  CHECK_EQ(reports[1].size_bytes, -64);
  CHECK_EQ(reports[1].total_allocated_bytes, 36u);
  CHECK_EQ(reports[2].size_bytes, 1 << 20);
  CHECK_EQ(reports[2].device_type, 1);
  CHECK_EQ(reports[2].device_index, 1);
  CHECK_EQ(range.memory().size_bytes, 0);
}
