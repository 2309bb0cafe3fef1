// SPDX-License-Identifier: Apache-2.0
// RecordFunction's macros, and functions as a session records them, with and without callbacks.
#include <cstring>

#include "fastprof/primitives/record_function_macros.hpp"
#include "record_function_checks.hpp"
#include "recorder_checks.hpp"

using namespace fastprof;
using namespace record_function_checks;

namespace {
int evaluated = 0;
int evaluate(int value) {
  ++evaluated;
  return value;
}
int add(int a, int b) {
  FASTPROF_RECORD_FUNCTION("add", inputs(evaluate(a), b), kwinputs({{"alpha", 1}}),
                           sequence_number(3), forward_thread_id(4), overload_name("Scalar"),
                           debug_handle(5), node_id(6), async());
  const int sum = a + b;
  FASTPROF_RECORD_OUTPUTS(evaluate(sum), "done");
  return sum;
}
template <class T>
T twice(T value) {
  FASTPROF_RECORD_USER_SCOPE("twice");
  return value + value;
}
}  // namespace

TEST(macros_pass_their_options) {
  const Observed observed(all());
  evaluated = 0;
  CHECK_EQ(add(1, 2), 3);
  CHECK_EQ(evaluated, 2);
  CHECK_EQ(starts[0].name, "add");
  CHECK_EQ(starts[0].scope, RecordScope::FUNCTION);
  CHECK_EQ(starts[0].inputs.size(), 3u);
  CHECK_EQ(starts[0].inputs[1].as_int64(), 2);
  CHECK_EQ(starts[0].keys[0], "alpha");
  CHECK_EQ(starts[0].sequence_number, 3);
  CHECK_EQ(starts[0].forward_thread_id, 4u);
  CHECK_EQ(starts[0].overload, "Scalar");
  CHECK_EQ(starts[0].debug_handle, 5);
  CHECK_EQ(starts[0].node_id, 6);
  CHECK(starts[0].async);
  CHECK_EQ(ends[0].outputs.size(), 2u);
  CHECK_EQ(ends[0].outputs[0].as_int64(), 3);
  CHECK_EQ(twice(4), 8);
  CHECK_EQ(starts[1].scope, RecordScope::USER_SCOPE);
  const std::string name = "dynamic";
  { FASTPROF_RECORD_FUNCTION_DYNAMIC(name + " name", inputs(1), sequence_number(9)); }
  CHECK_EQ(starts[2].name, "dynamic name");
  CHECK_EQ(starts[2].sequence_number, 9);
  { FASTPROF_RECORD_USER_SCOPE_DYNAMIC(name); }
  CHECK_EQ(starts[3].name, "dynamic");
  { FASTPROF_RECORD_FUNCTION_WITH_SCOPE(RecordScope::STATIC_RUNTIME_OP, "op"); }
  CHECK_EQ(starts[4].scope, RecordScope::STATIC_RUNTIME_OP);
}

TEST(options_may_be_without_values) {
  const Observed observed(all());
  {
    FASTPROF_RECORD_FUNCTION("no values", inputs());
    FASTPROF_RECORD_OUTPUTS();
  }
  { FASTPROF_RECORD_FUNCTION("no number", inputs(1), kwinputs({})); }
  { FASTPROF_RECORD_FUNCTION_DYNAMIC(std::string("dynamic"), inputs(), async()); }
  CHECK_EQ(starts.size(), 3u);
  CHECK_EQ(starts[0].num_inputs, 0u);
  CHECK_EQ(ends[0].outputs.size(), 0u);
  CHECK_EQ(starts[1].num_inputs, 1u);
  CHECK_EQ(starts[2].num_inputs, 0u);
  CHECK(starts[2].async && !starts[1].async);
}

TEST(arguments_of_ranges_are_values_of_their_types) {
  const double half = 0.5;
  uint64_t bits = 0;
  std::memcpy(&bits, &half, sizeof bits);
  CHECK(arg_value(ArgType::int64, static_cast<uint64_t>(-5)) == Value(-5));
  CHECK(arg_value(ArgType::uint64, 5) == Value(5));
  CHECK(arg_value(ArgType::uint64, UINT64_MAX) == Value(UINT64_MAX));
  CHECK(arg_value(ArgType::pointer, 4096) == Value(4096));
  CHECK(arg_value(ArgType::float64, bits) == Value(0.5));
  CHECK(arg_value(ArgType::boolean, 0) == Value(false));
  CHECK(arg_value(ArgType::boolean, 1) == Value(true));
  CHECK(arg_value(ArgType::boolean, 2) == Value(true));
  CHECK(arg_value(ArgType::string, reinterpret_cast<uintptr_t>("text")) == Value("text"));
  CHECK(arg_value(static_cast<ArgType>(6), 1) == Value());
}

// --- with the recorder

namespace {
std::string category_of(const Session& session, const char* name) {
  for (const SiteInfo& site : session.capture().sites)
    if (site.name == name) return site.category;
  return "none";
}
}  // namespace

TEST(functions_are_recorded_with_and_without_callbacks) {
  Session session;
  session.start();
  add(1, 2);
  twice(1);
  {
    RecordFunction function;
    function.before(std::string("interned op"));
  }
  {
    const Observed observed(all());
    add(1, 2);
    { FASTPROF_RANGE("range with callbacks"); }
    { FASTPROF_RANGE_ARGS("args with callbacks", "rows", 12, "ratio", 0.5, "label", "x"); }
    CHECK_EQ(starts.size(), 3u);
    CHECK_EQ(starts[1].name, "range with callbacks");
    CHECK_EQ(starts[1].scope, RecordScope::USER_SCOPE);
    CHECK_EQ(starts[2].inputs.size(), 3u);
    CHECK_EQ(starts[2].keys[2], "label");
    CHECK_EQ(starts[2].inputs[0].as_int64(), 12);
    CHECK_EQ(starts[2].inputs[1].as_float64(), 0.5);
    CHECK_EQ(starts[2].inputs[2].as_string(), "x");
  }
  {
    const DisableRecordFunctionGuard off;
    add(1, 2);
  }
  session.stop();
  CHECK_EQ(recorder_checks::count_named(session.capture(), "add"), 2);
  CHECK_EQ(recorder_checks::count_named(session.capture(), "twice"), 1);
  CHECK_EQ(recorder_checks::count_named(session.capture(), "interned op"), 1);
  CHECK_EQ(recorder_checks::count_named(session.capture(), "range with callbacks"), 1);
  CHECK_EQ(recorder_checks::count_named(session.capture(), "args with callbacks"), 1);
  CHECK_EQ(category_of(session, "add"), "cpu_op");
  CHECK_EQ(category_of(session, "twice"), "user_annotation");
  const Capture& capture = session.capture();
  for (size_t row = 0; row < capture.size(); ++row) {
    CHECK(capture.flags[row] & event_flag::finished);
    if (capture.sites[capture.site[row]].name != "args with callbacks") continue;
    CHECK_EQ(capture.payload_words[capture.payload[row]], 12u);
  }
}

TEST(ranges_call_callbacks_without_a_session) {
  const Observed observed;
  {
    FASTPROF_RANGE("outer");
    FASTPROF_RANGE_DYNAMIC(std::string("inner"));
    FASTPROF_FUNCTION();
  }
  CHECK_EQ(starts.size(), 3u);
  CHECK_EQ(ends.size(), 3u);
  CHECK_EQ(starts[0].name, "outer");
  CHECK_EQ(starts[1].name, "inner");
  CHECK_EQ(ends[2].name, "outer");
}
