// SPDX-License-Identifier: Apache-2.0
// Details of a RecordFunction in a session: numbers, overload name, inputs.
#include <thread>

#include "check.hpp"
#include "fastprof/export/forward_backward.hpp"
#include "fastprof/payload/blocks/decode_detail.hpp"
#include "fastprof/payload/op_inputs/op_inputs.hpp"
#include "recorder_checks.hpp"

using namespace fastprof;
using recorder_checks::Running;

namespace {

constexpr int64_t kShape[] = {3, 4}, kStrides[] = {4, 1};

TensorDescription matrix() {
  return {Span<const int64_t>(kShape), Span<const int64_t>(kStrides), DType::float32, {}, nullptr};
}

size_t row_of(const Capture& capture, const std::string& name) {
  for (size_t row = 0; row < capture.size(); ++row)
    if (capture.sites[capture.site[row]].name == name) return row;
  return capture.size();
}

std::vector<int64_t> numbers_of(const Capture& capture, size_t row) {
  const DetailSpan span = find_detail_block(capture, row, DetailType::op);
  return std::vector<int64_t>(span.words, span.words + span.count);
}

std::string overload_of(const Capture& capture, size_t row) {
  const DetailSpan span = find_detail_block(capture, row, DetailType::overload);
  return span.found ? capture.strings.at(span.words[0]) : std::string();
}

OpInputs inputs_of(const Capture& capture, size_t row) {
  OpInputs inputs;
  const DetailSpan span = find_detail_block(capture, row, DetailType::op_inputs);
  if (span.found) CHECK(decode_op_inputs(span.words, span.count, inputs));
  return inputs;
}

SessionOptions with_shapes() {
  SessionOptions options;
  options.record_shapes = true;
  return options;
}

}  // namespace

TEST(numbers_and_overload_are_recorded) {
  Running session;
  {
    FASTPROF_RECORD_FUNCTION("op", sequence_number(7), node_id(3), overload_name("out"));
    FASTPROF_RANGE("inner");
  }
  { FASTPROF_RECORD_FUNCTION("sequence", sequence_number(8)); }
  {
    RecordFunction function(RecordScope::USER_SCOPE);
    function.set_overload_name("Tensor");
    function.before(std::string("dynamic ") + "name");
  }
  { FASTPROF_RECORD_FUNCTION("plain"); }
  const Capture& capture = session.stop();
  const size_t op = row_of(capture, "op");
  CHECK(numbers_of(capture, op) == (std::vector<int64_t>{7, 0, 0, 3}));
  CHECK_EQ(overload_of(capture, op), "out");
  CHECK_EQ(capture.parent[row_of(capture, "inner")], static_cast<int32_t>(op));
  CHECK(numbers_of(capture, row_of(capture, "sequence")) == std::vector<int64_t>{8});
  CHECK_EQ(overload_of(capture, row_of(capture, "dynamic name")), "Tensor");
  CHECK(numbers_of(capture, row_of(capture, "dynamic name")).empty());
  // Without details, the record takes 24 bytes.
  CHECK_EQ(capture.payload[row_of(capture, "plain")], kNoPayload);
  for (size_t row = 0; row < capture.size(); ++row)
    CHECK((capture.flags[row] & event_flag::finished) != 0);
}

TEST(inputs_are_recorded_for_sessions_that_want_shapes) {
  const auto call = [] {
    FASTPROF_RECORD_FUNCTION(
        "mm",
        inputs(matrix(), -2, 2.5, true, "text", std::vector<int>{1, 2}, Value(),
               std::vector<TensorDescription>{matrix(), matrix()}, std::vector<double>{1, 2.5}),
        kwinputs({{"dim", 1}, {"mode", "fast"}}));
  };
  Running plain;
  {
    RecordFunction function;
    CHECK(function.is_active() && !function.needs_inputs());
  }
  call();
  {
    Running shapes(with_shapes());
    {
      RecordFunction function;
      CHECK(function.needs_inputs());
    }
    call();
    const Capture& capture = shapes.stop();
    const OpInputs seen = inputs_of(capture, row_of(capture, "mm"));
    CHECK_EQ(seen.given, 9u);
    CHECK_EQ(seen.inputs.size(), 9u);
    CHECK(seen.inputs[0].kind == InputKind::tensor);
    CHECK(seen.inputs[0].sizes == (std::vector<int64_t>{3, 4}));
    CHECK(seen.inputs[0].strides == (std::vector<int64_t>{4, 1}));
    CHECK_EQ(seen.inputs[0].dtype, 6);
    CHECK_EQ(seen.inputs[1].integer, -2);
    CHECK_EQ(seen.inputs[2].real, 2.5);
    CHECK(seen.inputs[3].kind == InputKind::boolean && seen.inputs[3].integer == 1);
    CHECK_EQ(seen.inputs[4].text, "text");
    CHECK_EQ(seen.inputs[5].items.size(), 2u);
    CHECK(seen.inputs[6].kind == InputKind::other);
    CHECK(seen.inputs[7].kind == InputKind::tensor_list && seen.inputs[7].items.size() == 2);
    CHECK_EQ(seen.inputs[8].items.at(1).real, 2.5);
    CHECK_EQ(seen.keywords.size(), 2u);
    CHECK_EQ(seen.keywords[0].first, "dim");
    CHECK_EQ(seen.keywords[1].second.text, "fast");
  }
  {
    RecordFunction function;
    CHECK(!function.needs_inputs());
  }
  const Capture& capture = plain.stop();
  CHECK_EQ(capture.payload[row_of(capture, "mm")], kNoPayload);
}

TEST(what_does_not_fit_is_counted) {
  Running session(with_shapes());
  const std::vector<TensorDescription> many(500, matrix());
  const std::vector<int> long_list(31, 1);
  { FASTPROF_RECORD_FUNCTION("list", inputs(many, 1)); }
  {
    std::vector<Value> values(600, Value(matrix()));
    RecordFunction function;
    function.before("inputs", Span<const Value>(values));
  }
  {
    FASTPROF_RECORD_FUNCTION("odd", inputs(long_list, std::vector<std::vector<int>>{{1}, {2}},
                                           std::string(1000, 'x'), TensorDescription{}));
  }
  const Capture& capture = session.stop();
  const OpInputs list = inputs_of(capture, row_of(capture, "list"));
  CHECK_EQ(list.inputs.at(0).given, 500u);
  CHECK(list.inputs[0].items.size() > 300 && list.inputs[0].items.size() < 500);
  CHECK_EQ(list.given, 2u);
  const OpInputs inputs = inputs_of(capture, row_of(capture, "inputs"));
  CHECK_EQ(inputs.given, 600u);
  CHECK(inputs.inputs.size() > 300 && inputs.inputs.size() < 600);
  const OpInputs odd = inputs_of(capture, row_of(capture, "odd"));
  CHECK(odd.inputs.at(0).kind == InputKind::other && odd.inputs.at(1).kind == InputKind::other);
  CHECK_EQ(odd.inputs.at(2).text.size(), size_t{kMaxInputTextBytes});
  CHECK(odd.inputs.at(3).kind == InputKind::tensor && odd.inputs[3].sizes.empty());
}

TEST(inputs_go_with_native_stacks_and_other_ends) {
  SessionOptions options = with_shapes();
  options.cpp_stacks = true;
  Running session(options);
  { FASTPROF_RECORD_FUNCTION("op", inputs(1), sequence_number(4)); }
  auto* function = new RecordFunction;
  function->before("handed over", {}, 9);
  std::thread([function] { delete function; }).join();
  const Capture& capture = session.stop();
  const size_t op = row_of(capture, "op"), other = row_of(capture, "handed over");
  CHECK(decode_cpp_stack(capture, op).count > 0);
  CHECK_EQ(inputs_of(capture, op).inputs.size(), 1u);
  CHECK(numbers_of(capture, op) == std::vector<int64_t>{4});
  CHECK_EQ(numbers_of(capture, other).at(0), 9);
  CHECK((capture.flags[other] & event_flag::cross_thread_end) != 0);
}

TEST(a_forked_child_knows_its_own_threads) {
  const int status = recorder_checks::in_child([] {
    Running session;
    { FASTPROF_RECORD_FUNCTION("forward", sequence_number(1)); }
    const uint64_t here = current_thread_id();
    {
      FASTPROF_RECORD_FUNCTION_WITH_SCOPE(RecordScope::BACKWARD_FUNCTION, "backward",
                                          sequence_number(1), forward_thread_id(here));
    }
    const Capture& capture = session.stop();
    const ForwardBackwardLinks links(capture);
    return links.at(row_of(capture, "forward")).id == 1 ? 0 : 1;
  });
  CHECK_EQ(status, 0);
}
