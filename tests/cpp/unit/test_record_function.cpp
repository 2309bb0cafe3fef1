// SPDX-License-Identifier: Apache-2.0
// RecordFunction: what observers see, when, and what happens when they fail.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "record_function_checks.hpp"

using namespace fastprof;
using namespace record_function_checks;

TEST(before_and_end_are_idempotent) {
  const Observed observed;
  {
    RecordFunction function(RecordScope::BACKWARD_FUNCTION);
    CHECK(function.is_active());
    function.end();  // nothing has begun
    CHECK_EQ(ends.size(), 0u);
    function.before("first", 12);
    function.before("second", 13);
    CHECK_EQ(function.name(), "first");
    function.end();
    function.end();
    function.before("third");
  }
  CHECK_EQ(starts.size(), 1u);
  CHECK_EQ(ends.size(), 1u);
  CHECK_EQ(starts[0].name, "first");
  CHECK_EQ(starts[0].scope, RecordScope::BACKWARD_FUNCTION);
  CHECK_EQ(starts[0].sequence_number, 12);
  CHECK_EQ(starts[0].thread_id, current_thread_id());
}

TEST(names_are_borrowed_or_copied) {
  const Observed observed;
  {
    RecordFunction function;
    std::string name = "a rather long name that does not fit a small string";
    function.before(name);
    name.assign(name.size(), 'x');
    CHECK_EQ(function.name(), "a rather long name that does not fit a small string");
    CHECK_EQ(std::string(function.name_c_str()), std::string(function.name()));
  }
  {
    RecordFunction function;
    function.before(std::string_view("part of this").substr(0, 4));
    CHECK_EQ(function.name(), "part");
  }
  {
    RecordFunction function;
    function.before("record_param_comms");
    CHECK(function.is_nccl_meta());
    function.set_overload_name("out");
    CHECK_EQ(function.overload_name(), "out");
  }
  {
    RecordFunction function;
    const char* null = nullptr;
    function.before(null);
    CHECK_EQ(function.name(), "");
  }
}

TEST(what_is_not_given_is_not_set) {
  static constexpr Site site = make_scope_site(RecordScope::USER_SCOPE, "of a site");
  const std::vector<Value> inputs{1, 2};
  const NamedValue kwinputs[] = {{"dim", 4}};
  const Observed observed(all());
  for (int form = 0; form < 4; ++form) {
    RecordFunction function;
    CHECK_EQ(function.name(), "");
    CHECK_EQ(std::string(function.name_c_str()), "");
    CHECK_EQ(function.overload_name(), "");
    CHECK_EQ(function.num_inputs(), 0u);
    CHECK_EQ(function.num_outputs(), 0u);
    CHECK_EQ(function.node_id(), -1);
    if (form == 0) function.before("f");
    if (form == 1) function.before("f", inputs);
    if (form == 2) function.before("f", inputs, kwinputs);
    if (form == 3) function.before(site);
    CHECK_EQ(function.name(), form == 3 ? "of a site" : "f");
    CHECK(!function.is_nccl_meta());
    CHECK_EQ(function.sequence_number(), -1);
    CHECK_EQ(function.num_inputs(), form == 1 || form == 2 ? 2u : 0u);
    CHECK_EQ(function.debug_handle(), -1);
    function.set_overload_name(nullptr);
    CHECK_EQ(function.overload_name(), "");
    function.set_static_runtime_out_variant(true);
    function.set_static_runtime_out_variant(false);
    CHECK(!function.is_static_runtime_out_variant());
  }
  CHECK_EQ(starts[2].keys.size(), 1u);
  CHECK_EQ(starts[3].keys.size(), 0u);
}

TEST(a_function_that_nobody_observes_keeps_the_defaults) {
  RecordFunction function(RecordScope::USER_SCOPE);
  CHECK(!function.is_active());
  function.set_overload_name("out");
  function.set_forward_thread_id(9);
  function.set_handle(77);
  function.set_debug_handle(11);
  function.set_node_id(3);
  function.set_async();
  function.set_static_runtime_out_variant(true);
  function.set_outputs({Value(1)});
  function.before("f", {}, 12);
  CHECK(function.scope() == RecordScope::FUNCTION);
  CHECK(!function.needs_inputs() && !function.needs_outputs());
  CHECK_EQ(function.name(), "");
  CHECK_EQ(function.overload_name(), "");
  CHECK_EQ(function.forward_thread_id(), 0u);
  CHECK_EQ(function.handle(), 0u);
  CHECK_EQ(function.debug_handle(), -1);
  CHECK_EQ(function.node_id(), -1);
  CHECK_EQ(function.sequence_number(), -1);
  CHECK_EQ(function.thread_id(), 0u);
  CHECK_EQ(function.num_inputs(), 0u);
  CHECK_EQ(function.num_outputs(), 0u);
  CHECK_EQ(function.outputs().size(), 0u);
  CHECK(!function.is_async() && !function.is_static_runtime_out_variant());
}

TEST(inputs_are_seen_in_the_start_callback_only) {
  const Observed observed(all());
  const std::vector<Value> inputs{1, "two", 3.0};
  const NamedValue kwinputs[] = {{"dim", 4}};
  RecordFunction function;
  CHECK(function.needs_inputs());
  function.before("f", inputs, kwinputs, 5);
  CHECK_EQ(function.inputs().size(), 0u);
  CHECK_EQ(function.kwinputs().size(), 0u);
  CHECK_EQ(function.num_inputs(), 3u);
  function.end();
  CHECK_EQ(starts[0].inputs.size(), 4u);
  CHECK_EQ(starts[0].inputs[1].as_string(), "two");
  CHECK_EQ(starts[0].keys[0], "dim");
  CHECK_EQ(starts[0].sequence_number, 5);
  CHECK_EQ(ends[0].inputs.size(), 0u);
}

TEST(inputs_are_hidden_from_those_who_did_not_ask) {
  const Observed observed;
  const std::vector<Value> inputs{1};
  RecordFunction function;
  CHECK(!function.needs_inputs());
  function.before("f", inputs);
  function.set_outputs({Value(1)});
  function.end();
  CHECK_EQ(starts[0].inputs.size(), 0u);
  CHECK_EQ(ends[0].outputs.size(), 0u);
  CHECK_EQ(starts[0].handle, 0u);
}

TEST(outputs_are_seen_in_the_end_callback_only) {
  const Observed observed(all());
  RecordFunction function;
  function.before("f");
  CHECK(function.needs_outputs());
  function.set_outputs({Value(1)});
  function.set_outputs({Value(7), Value("out")});
  CHECK_EQ(function.outputs().size(), 0u);
  CHECK_EQ(function.num_outputs(), 2u);
  function.end();
  CHECK_EQ(function.outputs().size(), 0u);
  CHECK_EQ(starts[0].outputs.size(), 0u);
  CHECK_EQ(ends[0].outputs.size(), 2u);
  CHECK_EQ(ends[0].outputs[0].as_int64(), 7);
}

namespace {
RecordFunction* ending = nullptr;
size_t outputs_after = 0;
void set_outputs_at_the_end(const RecordFunction& function, ObserverContext*) {
  ending->set_outputs({Value(1), Value(2), Value(3)});
  outputs_after = function.outputs().size();
}
}  // namespace

TEST(outputs_cannot_be_set_once_the_end_has_come) {
  const CallbackHandle handle = add_thread_local_callback(
      RecordFunctionCallback(nullptr, set_outputs_at_the_end).needs_outputs(true));
  {
    RecordFunction function;
    ending = &function;
    function.set_outputs({Value(1)});  // before the begin: possible
    CHECK_EQ(function.num_outputs(), 1u);
    function.before("f");
    function.set_outputs({Value(1), Value(2)});
    function.end();
    CHECK_EQ(outputs_after, 2u);
    function.set_outputs({Value(1), Value(2), Value(3), Value(4)});
    CHECK_EQ(function.num_outputs(), 2u);
  }
  remove_callback(handle);
}

TEST(handles_are_unique_over_threads) {
  const CallbackHandle handle =
      add_global_callback(RecordFunctionCallback(nullptr).needs_ids(true));
  std::vector<uint64_t> seen[4];
  std::vector<std::thread> threads;
  for (auto& mine : seen)
    threads.emplace_back([&mine] {
      for (int i = 0; i < 3000; ++i) {
        RecordFunction function;
        function.before("f");
        mine.push_back(function.handle());
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<uint64_t> together;
  for (const auto& mine : seen) together.insert(together.end(), mine.begin(), mine.end());
  std::sort(together.begin(), together.end());
  CHECK(std::adjacent_find(together.begin(), together.end()) == together.end());
  CHECK(together.front() != 0);
  remove_callback(handle);
}

TEST(attributes_can_be_set_and_default) {
  const Observed observed;
  RecordFunction function;
  CHECK_EQ(function.forward_thread_id(), 0u);
  CHECK_EQ(function.debug_handle(), -1);
  CHECK(!function.is_async());
  CHECK(!function.is_static_runtime_out_variant());
  function.set_forward_thread_id(9);
  function.set_debug_handle(11);
  function.set_async();
  function.set_handle(77);
  function.set_static_runtime_out_variant(true);
  function.before("f");
  CHECK_EQ(starts[0].forward_thread_id, 9u);
  CHECK_EQ(starts[0].debug_handle, 11);
  CHECK_EQ(starts[0].handle, 77u);
  CHECK(starts[0].async);
  CHECK(function.is_static_runtime_out_variant());
}

TEST(node_ids_default_to_the_process) {
  const Observed observed;
  CHECK_EQ(RecordFunction::default_node_id(), -1);
  CHECK_THROWS(ValueError, RecordFunction::set_default_node_id(-1));
  RecordFunction::set_default_node_id(0);
  CHECK_EQ(RecordFunction::default_node_id(), 0);
  RecordFunction::set_default_node_id(3);
  {
    RecordFunction function;
    function.before("f");
    CHECK_EQ(starts[0].node_id, 3);
    function.set_node_id(8);
  }
  CHECK_EQ(ends[0].node_id, 8);
  store_relaxed(&state()->node_id, int64_t{-1});
}

TEST(a_function_may_end_on_another_thread) {
  const Observed observed(all());
  auto function = std::make_unique<RecordFunction>(RecordScope::USER_SCOPE);
  function->set_async();
  function->before(std::string("async work"));
  const uint64_t here = current_thread_id();
  std::thread([&] {
    CHECK(current_thread_id() != here);
    function->end();
    function.reset();
  }).join();
  CHECK_EQ(ends.size(), 1u);
  CHECK_EQ(ends[0].name, "async work");
  CHECK_EQ(ends[0].thread_id, here);
}

TEST(callbacks_chosen_ahead) {
  const Observed observed;
  auto steps = step_callbacks_unless_empty(RecordScope::USER_SCOPE);
  CHECK(steps.has_value());
  {
    RecordFunction function(std::move(*steps));
    function.before("f");
    CHECK_EQ(starts[0].scope, RecordScope::USER_SCOPE);
  }
  CHECK_EQ(ends.size(), 1u);
}

namespace {
int nested = 0;
std::unique_ptr<ObserverContext> start_with_a_function_inside(const RecordFunction&) {
  ++nested;
  FASTPROF_RECORD_FUNCTION("inside");
  FASTPROF_RANGE("inside too");
  return nullptr;
}
void end_with_a_function_inside(const RecordFunction&, ObserverContext*) {
  FASTPROF_RECORD_FUNCTION("inside the end");
}
}  // namespace

TEST(functions_inside_callbacks_call_none) {
  const CallbackHandle handle = add_global_callback(
      RecordFunctionCallback(start_with_a_function_inside, end_with_a_function_inside));
  nested = 0;
  {
    RecordFunction function;
    function.before("outer");
  }
  CHECK_EQ(nested, 1);
  {
    RecordFunction function;
    function.before("outer again");
  }
  CHECK_EQ(nested, 2);
  remove_callback(handle);
}

namespace {
std::unique_ptr<ObserverContext> throwing_start(const RecordFunction&) {
  throw std::runtime_error("start failed on purpose");
}
void throwing_end(const RecordFunction&, ObserverContext*) {
  throw 7;
}
std::unique_ptr<ObserverContext> start_throwing_a_number(const RecordFunction&) {
  throw 8;
}
void end_throwing_an_error(const RecordFunction&, ObserverContext*) {
  throw std::runtime_error("end failed on purpose");
}
}  // namespace

TEST(what_callbacks_throw_is_caught_and_reported_once) {
  const CallbackHandle bad =
      add_global_callback(RecordFunctionCallback(throwing_start, throwing_end));
  const std::string text = text_checks::stderr_of([] {
    const Observed observed;
    for (int i = 0; i < 5; ++i) {
      RecordFunction function;
      function.before("f");
    }
    CHECK_EQ(starts.size(), 5u);
    CHECK_EQ(ends.size(), 5u);
  });
  remove_callback(bad);
  CHECK_EQ(text,
           "fastprof: a RecordFunction start callback threw: start failed on purpose; it was "
           "caught, and further exceptions of this callback are not reported\n"
           "fastprof: a RecordFunction end callback threw an exception not derived from "
           "std::exception; it was caught, and further exceptions of this callback are not "
           "reported\n");
  RecordFunction function;  // the thread still dispatches
  const Observed observed;
  RecordFunction after;
  after.before("after");
  CHECK_EQ(starts.size(), 1u);
}

TEST(reports_of_failures_say_which_callback_it_was) {
  const CallbackHandle bad =
      add_global_callback(RecordFunctionCallback(start_throwing_a_number, end_throwing_an_error));
  const std::string text = text_checks::stderr_of([] {
    RecordFunction function;
    function.before("f");
  });
  remove_callback(bad);
  CHECK(text.find("a RecordFunction start callback threw an exception not derived from "
                  "std::exception; it") != std::string::npos);
  CHECK(text.find("a RecordFunction end callback threw: end failed on purpose; it") !=
        std::string::npos);
}

TEST(an_exception_through_the_scope_still_ends_it) {
  const Observed observed;
  try {
    FASTPROF_RECORD_FUNCTION("scope");
    throw std::runtime_error("through");
  } catch (const std::runtime_error&) {
  }
  CHECK_EQ(ends.size(), 1u);
}
