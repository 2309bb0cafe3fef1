// SPDX-License-Identifier: Apache-2.0
// The JSON forms of the exclusive profiler's events, and the NVTX text.
#include <sstream>
#include <vector>

#include "../legacy_checks.hpp"
#include "fastprof/legacy/nvtx_text.hpp"
#include "fastprof/legacy/write_events.hpp"

using namespace fastprof;

namespace {

LegacyEvent push(const std::string& name, uint64_t handle, int64_t cpu_ns, uint64_t thread = 1,
                 int64_t node = -1) {
  LegacyEvent event = make_event(LegacyEventKind::PushRange, name, handle, cpu_ns, thread);
  event.node_id = node;
  return event;
}
LegacyEvent pop(uint64_t handle, int64_t cpu_ns, uint64_t thread = 1, int64_t node = -1) {
  LegacyEvent event = make_event(LegacyEventKind::PopRange, "", handle, cpu_ns, thread);
  event.node_id = node;
  return event;
}
LegacyEvent start(int64_t cpu_ns) {
  return make_event(LegacyEventKind::Mark, kStartProfileMark, 0, cpu_ns);
}
std::string written(const LegacyEventLists& lists) {
  std::ostringstream out;
  write_events(out, lists);
  return out.str();
}

}  // namespace

TEST(a_trace_has_one_line_per_pop_in_pop_order_with_the_begin_thread) {
  CHECK_EQ(
      written({{start(1000), push("outer", 1, 2000, 5), push("inner", 2, 3500, 5), pop(2, 4750, 6),
                pop(1, 9000, 5), push("open", 3, 9500)}}),
      std::string("[\n"
                  "{\"name\": \"inner\", \"ph\": \"X\", \"ts\": 2.5, \"dur\": 1.25, \"tid\": 5, "
                  "\"pid\": \"CPU Functions\", \"args\": {}},\n"
                  "{\"name\": \"outer\", \"ph\": \"X\", \"ts\": 1.0, \"dur\": 7.0, \"tid\": 5, "
                  "\"pid\": \"CPU Functions\", \"args\": {}}\n"
                  "]\n"));
}

TEST(a_trace_of_nothing_is_an_empty_array) {
  CHECK_EQ(written({{start(5), push("open", 1, 6)}, {}}), std::string("[\n]\n"));
}

TEST(a_trace_that_cannot_be_written_raises_and_writes_nothing) {
  std::ostringstream out;
  CHECK_MESSAGE(FormatError, "Could not find the __start_profile mark", write_events(out, {{}}));
  // A range with the name of the mark is not the mark.
  CHECK_MESSAGE(FormatError, "Could not find the __start_profile mark",
                write_events(out, {{push(kStartProfileMark, 1, 1), pop(1, 2)}}));
  CHECK_MESSAGE(FormatError, "Unmatched pop event",
                write_events(out, {{start(0), push("a", 1, 1), pop(1, 2), pop(1, 3)}}));
  CHECK_MESSAGE(FormatError, "Unmatched pop event",
                write_events(out, {{start(0), push("a", 1, 1, 1, 3), pop(1, 2, 1, 4)}}));
  CHECK_EQ(out.str(), std::string());
  out.setstate(std::ios::failbit);
  CHECK_MESSAGE(IoError, "Could not open file", write_events(out, {{start(0)}}));
}

TEST(the_json_of_the_lists_has_every_field) {
  LegacyEvent event = push("n\"", 0xFFFFFFFFFFFFFFFFu, 12, 3, 2);
  event.scope = RecordScope::BACKWARD_FUNCTION;
  event.is_async = true;
  event.is_remote = true;
  event.device_index = 1;
  event.device_us = 40;
  event.cpu_memory_bytes = -8;
  event.device_memory_bytes = 16;
  event.sequence_nr = 6;
  event.forward_thread_id = 4;
  event.flops = 99;
  event.shapes = {{2, 3}, {}};
  event.stack = {"a\\b", "c"};
  CHECK_EQ(event_lists_json({{event}, {}}),
           std::string("{\"version\": 1, \"lists\": [[{\"kind\": \"push\", \"name\": \"n\\\"\", "
                       "\"thread_id\": 3, \"handle\": 18446744073709551615, \"node_id\": 2, "
                       "\"cpu_ns\": 12, \"cpu_memory_bytes\": -8, \"device_memory_bytes\": 16, "
                       "\"device_recorded\": true, \"device_index\": 1, \"device_us\": 40, "
                       "\"sequence_nr\": 6, \"forward_thread_id\": 4, \"scope\": 1, \"flops\": 99, "
                       "\"is_async\": true, \"is_remote\": true, \"shapes\": [[2, 3], []], "
                       "\"stack\": [\"a\\\\b\", \"c\"]}],\n[]]}\n"));
  CHECK_EQ(event_lists_json({}), std::string("{\"version\": 1, \"lists\": []}\n"));
}

TEST(nvtx_text_is_terminated_at_each_length) {
  const int64_t size = 7;
  for (size_t length = 430; length <= 448; ++length) {
    NvtxText text;
    std::string expected(length, 'n');
    text.add_head(expected, -1, 0);
    text.open_sizes();
    expected += ", sizes = [";
    for (int i = 0; i < 30; ++i) {
      text.add_shape(&size, 1);
      expected += i == 0 ? "[7]" : ", [7]";
      CHECK_EQ(std::string(text.c_str()), expected);
    }
  }
}

TEST(nvtx_text_has_each_part_only_when_it_is_known) {
  const std::vector<std::vector<int64_t>> shapes = {{2, 3}, {}, {4}};
  CHECK_EQ(nvtx_range_text("op", -1), std::string("op"));
  CHECK_EQ(nvtx_range_text(std::string_view(), 1), std::string(", seq = 1"));
  CHECK_EQ(nvtx_range_text("op", 0), std::string("op, seq = 0"));
  CHECK_EQ(nvtx_range_text("op", -1, 5), std::string("op, op_id = 5"));
  CHECK_EQ(nvtx_range_text("op", 7, 5), std::string("op, seq = 7, op_id = 5"));
  CHECK_EQ(nvtx_range_text("op", -1, 0, shapes), std::string("op, sizes = [[2, 3], [], [4]]"));
  CHECK_EQ(nvtx_range_text("op", 7, 5, shapes, {{3, 1}, {}, {4, 0}}),
           std::string("op, seq = 7, op_id = 5, sizes = [[2, 3], [], [4]], "
                       "input_op_ids = [(3,1), (0,-1), (4,0)]"));
}
