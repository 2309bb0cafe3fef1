// SPDX-License-Identifier: Apache-2.0
// Shapes, producers and operation counts read from inputs. The counts are those of torch 2.13 for
// the same calls.
#include "../legacy_checks.hpp"
#include "fastprof/legacy/flops.hpp"
#include "fastprof/legacy/input_shapes.hpp"

using namespace fastprof;

namespace {

Value tensor(const std::vector<int64_t>& shape, const void* pointer = nullptr) {
  TensorDescription description;
  description.shape = shape;
  description.pointer = pointer;
  return Value(description);
}

uint64_t flops(const char* name, const std::vector<Value>& inputs) {
  return estimate_flops(name, inputs);
}

Value ints(const std::vector<int64_t>& values) {
  return Value(values);
}

std::vector<Value> conv(const std::vector<int64_t>& input, const std::vector<int64_t>& weight,
                        Value stride, Value padding, Value dilation, int64_t groups) {
  return {tensor(input), tensor(weight), Value(), stride, padding, dilation, Value(groups)};
}

}  // namespace

TEST(products_of_matrices) {
  CHECK_EQ(flops("aten::mm", {tensor({40, 33}), tensor({33, 243})}), 2u * 40 * 33 * 243);
  CHECK_EQ(flops("aten::addmm", {tensor({243}), tensor({40, 33}), tensor({33, 243})}),
           2u * 40 * 33 * 243);
  CHECK_EQ(flops("aten::bmm", {tensor({7, 4, 5}), tensor({7, 5, 6})}), 2u * 7 * 4 * 5 * 6);
  CHECK_EQ(flops("aten::baddbmm", {tensor({7, 4, 6}), tensor({7, 4, 5}), tensor({7, 5, 6})}),
           2u * 7 * 4 * 5 * 6);
  CHECK_EQ(flops("aten::mm", {tensor({0, 33}), tensor({33, 2})}), 0u);
}

TEST(elementwise_operators_count_the_first_input) {
  CHECK_EQ(flops("aten::mul", {tensor({3, 4, 5}), Value(2.0)}), 60u);
  CHECK_EQ(flops("aten::add", {tensor({3, 4}), tensor({4})}), 12u);
  CHECK_EQ(flops("aten::add", {tensor({}), tensor({4})}), 1u);
}

TEST(two_dimensional_convolutions) {
  // torch 2.13: Conv2d(8, 18, 3, padding=1) on [40, 8, 18, 18] counts 33592320.
  CHECK_EQ(flops("aten::conv2d",
                 conv({40, 8, 18, 18}, {18, 8, 3, 3}, ints({1, 1}), ints({1, 1}), ints({1, 1}), 1)),
           2u * 40 * 8 * 18 * 3 * 3 * 18 * 18);
  CHECK_EQ(flops("aten::conv2d",
                 conv({1, 4, 9, 11}, {6, 2, 3, 5}, ints({2, 3}), ints({0, 1}), ints({2, 1}), 2)),
           2u * 1 * 4 * 6 * 3 * 5 * 3 * 3 / 2);
  CHECK_EQ(flops("aten::conv2d", conv({1, 1, 5, 5}, {1, 1, 3, 3}, Value(2), Value(1), Value(1), 1)),
           2u * 9 * 9);
  CHECK_EQ(flops("aten::conv2d", {tensor({1, 1, 5, 5}), tensor({1, 1, 3, 3})}), 2u * 9 * 9);
}

TEST(what_cannot_be_counted_is_0) {
  CHECK_EQ(flops("aten::sub", {tensor({3})}), 0u);
  CHECK_EQ(flops("mm", {tensor({2, 2}), tensor({2, 2})}), 0u);
  CHECK_EQ(flops("aten::mm", {}), 0u);
  CHECK_EQ(flops("aten::mm", {tensor({2, 2})}), 0u);
  CHECK_EQ(flops("aten::mm", {tensor({2, 3}), tensor({2, 3})}), 0u);
  CHECK_EQ(flops("aten::mm", {tensor({2}), tensor({2})}), 0u);
  CHECK_EQ(flops("aten::mm", {Value(1), Value(2)}), 0u);
  CHECK_EQ(flops("aten::mul", {Value(1), tensor({2})}), 0u);
  CHECK_EQ(flops("aten::mul", {tensor({-1, 2})}), 0u);
  CHECK_EQ(flops("aten::mul", {tensor({INT64_MAX, INT64_MAX})}), 0u);
  const std::vector<int64_t> image = {1, 1, 5, 5}, kernel = {1, 1, 3, 3};
  CHECK_EQ(flops("aten::conv2d", conv(image, {1, 1, 7, 7}, Value(1), Value(0), Value(1), 1)), 0u);
  CHECK_EQ(flops("aten::conv2d", conv(image, kernel, Value(0), Value(0), Value(1), 1)), 0u);
  CHECK_EQ(flops("aten::conv2d", conv(image, kernel, Value(1), Value("same"), Value(1), 1)), 0u);
  CHECK_EQ(flops("aten::conv2d", conv(image, kernel, ints({1, 1, 1}), Value(0), Value(1), 1)), 0u);
  CHECK_EQ(flops("aten::conv2d", conv(image, kernel, Value(1), Value(0), Value(1), 0)), 0u);
  CHECK_EQ(
      flops("aten::conv2d", conv(image, kernel, Value(1), Value(INT64_MAX), Value(INT64_MAX), 1)),
      0u);
}

TEST(shapes_have_one_entry_per_argument) {
  const std::vector<Value> inputs = {tensor({2, 3}), Value(1), tensor({}),
                                     Value::list({tensor({4}), tensor({5, 6})}), ints({1, 2})};
  const std::vector<std::vector<int64_t>> plain = {{2, 3}, {}, {}, {}, {}};
  const std::vector<std::vector<int64_t>> flat = {{2, 3}, {}, {}, {4}, {5, 6}, {}};
  CHECK(input_shapes(inputs) == plain);
  CHECK(input_shapes(inputs, true) == flat);
  CHECK(input_shapes({}).empty());
}

TEST(producers_follow_tensors_by_address_until_they_are_freed) {
  int a = 0, b = 0;
  TensorProducers producers;
  const std::vector<Value> outputs = {Value(3), tensor({1}, &a), tensor({1}, &b)};
  producers.produced(9, outputs);
  const std::vector<Value> inputs = {tensor({1}, &b), Value(1), tensor({1}, &inputs),
                                     Value::list({tensor({1}, &a), Value(2)}), tensor({1})};
  const std::vector<ProducerOp> expected = {{9, 2}, {}, {}, {9, 1}, {}};
  CHECK(producers.of_inputs(inputs) == expected);
  const std::vector<Value> newer = {tensor({1}, &b)};
  producers.produced(10, newer);
  producers.freed(&a);
  const std::vector<ProducerOp> later = {{10, 0}, {}, {}, {}, {}};
  CHECK(producers.of_inputs(inputs) == later);
}
