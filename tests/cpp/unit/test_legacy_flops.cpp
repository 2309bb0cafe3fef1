// SPDX-License-Identifier: Apache-2.0
// Shapes, producers and operation counts read from inputs. The counts are those of torch 2.13 for
// the same calls.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

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

struct Case {
  char mark;
  std::string name;
  std::vector<Value> inputs;
  std::string flops;
  std::string line;
};

std::vector<int64_t> numbers(const std::string& text, char between) {
  std::vector<int64_t> found;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, between);) found.push_back(std::stoll(word));
  return found;
}

Value value_of(const std::string& word) {
  if (word == "-") return Value();
  if (word[0] == 'T') return tensor(numbers(word.substr(1), 'x'));
  if (word[0] == '(') return Value(numbers(word.substr(1, word.size() - 2), ','));
  if (word.find_first_not_of("-0123456789") == std::string::npos) return Value(std::stoll(word));
  return Value(word);
}

// Reads tests/cases/flops.txt, which explains its lines; test_flops.py reads it, too.
std::vector<Case> read_cases() {
  const char* root = std::getenv("FASTPROF_TEST_SOURCE_DIR");
  std::ifstream file(std::string(root != nullptr ? root : ".") + "/tests/cases/flops.txt");
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    Case one{line[0], {}, {}, {}, line};
    std::istringstream words(line.substr(1));
    words >> one.name;
    std::string word;
    while (words >> word && word != "=") one.inputs.push_back(value_of(word));
    words >> one.flops;
    cases.push_back(std::move(one));
  }
  return cases;
}

uint64_t flops(const char* name, const std::vector<Value>& inputs) {
  return estimate_flops(name, inputs);
}

}  // namespace

TEST(the_table_of_cases) {
  const std::vector<Case> cases = read_cases();
  CHECK(cases.size() > 50);
  for (const Case& one : cases) {
    const bool counted = one.mark != '*' && one.flops != "none";
    const uint64_t expected = counted ? std::stoull(one.flops) : 0;
    if (estimate_flops(one.name, one.inputs) != expected)
      std::fprintf(stderr, "%s\n", one.line.c_str());
    CHECK_EQ(estimate_flops(one.name, one.inputs), expected);
  }
}

TEST(what_has_no_number_of_operations_is_0) {
  CHECK_EQ(flops("mm", {tensor({2, 2}), tensor({2, 2})}), 0u);  // PyTorch's names only
  CHECK_EQ(flops("aten::mul", {tensor({INT64_MAX, INT64_MAX})}), 0u);
  const Value image = tensor({1, 1, 5, 5}), kernel = tensor({1, 1, 3, 3});
  CHECK_EQ(flops("aten::conv2d",
                 {image, kernel, Value(), Value(1), Value(INT64_MAX), Value(INT64_MAX), Value(1)}),
           0u);
  CHECK_EQ(flops("aten::conv2d",
                 {image, kernel, Value(), Value(1), Value("same"), Value(INT64_MAX), Value(1)}),
           0u);
  const Value point = tensor({1, 1, 1, 1});
  const int64_t most = int64_t{1} << 30;
  const auto dilated = [&](int64_t dilation) {
    return flops("aten::conv2d",
                 {image, point, Value(), Value(1), Value(0), Value(dilation), Value(1)});
  };
  CHECK_EQ(dilated(most), 50u);
  CHECK_EQ(dilated(most + 1), 0u);
}

TEST(products_need_matrices_of_one_rank_that_fit) {
  // The inner sizes agree; only the rank of one input is wrong.
  CHECK_EQ(flops("aten::mm", {tensor({2, 4, 9}), tensor({4, 5})}), 0u);
  CHECK_EQ(flops("aten::mm", {tensor({2, 4}), tensor({4, 5, 6})}), 0u);
  CHECK_EQ(flops("aten::bmm", {tensor({2, 3, 4}), tensor({2, 5, 6})}), 0u);
  CHECK_EQ(flops("aten::mm", {tensor({2, 4}), tensor({4, 5})}), 80u);
  CHECK_EQ(flops("aten::addmm", {Value(1), tensor({2, 4}), tensor({4, 5})}), 80u);
  CHECK_EQ(flops("aten::addmm", {Value(1), tensor({2, 4})}), 0u);
}

namespace {
const std::vector<int64_t> image{1, 1, 5, 5}, point{1, 1, 1, 1}, square{1, 1, 3, 3};

uint64_t conv2d(const std::vector<int64_t>& input, const std::vector<int64_t>& weight,
                const std::vector<Value>& options = {}) {
  std::vector<Value> inputs = {tensor(input), tensor(weight), Value()};
  inputs.insert(inputs.end(), options.begin(), options.end());
  return estimate_flops("aten::conv2d", std::vector<Value>(inputs));  // without spare capacity
}
Value pair(int64_t first, int64_t second) {
  return Value(std::vector<int64_t>{first, second});
}
}  // namespace

TEST(a_convolution_may_end_its_arguments_anywhere) {
  CHECK_EQ(conv2d(image, square), 162u);
  CHECK_EQ(conv2d(image, square, {Value(2)}), 72u);
  CHECK_EQ(conv2d(image, square, {Value(2), Value(1)}), 162u);
  CHECK_EQ(conv2d(image, square, {Value(1), Value("same")}), 450u);
  CHECK_EQ(conv2d(image, square, {Value(1), Value()}), 0u);  // a name that was not recorded
  CHECK_EQ(conv2d(image, square, {Value(1), Value("same"), Value(2)}), 450u);
  CHECK_EQ(conv2d(image, square, {Value(1), Value(0), Value(2)}), 18u);
  CHECK_EQ(conv2d(image, square, {Value(1), Value(0), Value(1), Value(3)}), 54u);
  CHECK_EQ(conv2d(image, square, {Value(), Value(0), Value(), Value()}), 162u);
}

TEST(a_convolution_with_an_argument_of_another_type_is_not_counted) {
  const Value odd[] = {Value(1.5), Value(std::vector<int64_t>{1, 1, 1}),
                       Value(std::vector<int64_t>{}), Value::list({1, 1.5}), Value::list({1.5, 1})};
  for (const Value& value : odd) {
    CHECK_EQ(conv2d(image, square, {value}), 0u);
    CHECK_EQ(conv2d(image, square, {Value(1), value}), 0u);
    CHECK_EQ(conv2d(image, square, {Value(1), Value(0), value}), 0u);
    CHECK_EQ(conv2d(image, square, {Value(1), Value(0), Value(1), value}), 0u);
  }
  CHECK_EQ(conv2d({1, 1, 1, 5, 5}, square), 0u);
  CHECK_EQ(conv2d(image, {1, 1, 3, 3, 1}), 0u);
  CHECK_EQ(flops("aten::conv2d", {}), 0u);
}

TEST(each_dimension_of_a_convolution_has_its_own_numbers) {
  CHECK_EQ(conv2d({1, 1, 5, 7}, {1, 1, 2, 3}), 240u);
  CHECK_EQ(conv2d({1, 1, 5, 7}, {1, 1, 2, 3}, {pair(2, 5)}), 24u);
  CHECK_EQ(conv2d({1, 1, 5, 7}, {1, 1, 2, 3}, {Value(1), pair(1, 2)}), 648u);
  CHECK_EQ(conv2d({1, 1, 5, 7}, {1, 1, 2, 3}, {Value(1), Value(0), pair(3, 2)}), 72u);
  CHECK_EQ(conv2d({1, 1, 5, 7}, {1, 1, 2, 4}, {Value(1), Value("same"), pair(2, 1)}), 560u);
  CHECK_EQ(conv2d(image, {1, 1, 5, 5}), 50u);  // one place for the kernel
  CHECK_EQ(conv2d(image, {1, 1, 6, 5}), 0u);
  CHECK_EQ(conv2d(image, {1, 1, 5, 6}), 0u);
  CHECK_EQ(conv2d({1, 1, 0, 5}, point, {Value(1), Value(1)}), 28u);
  CHECK_EQ(conv2d({1, 1, -1, 5}, point, {Value(1), Value(5)}), 0u);
  CHECK_EQ(conv2d({1, 1, 5, -1}, point, {Value(1), Value(5)}), 0u);
  CHECK_EQ(conv2d(image, point, {pair(1, 0)}), 0u);
  CHECK_EQ(conv2d(image, point, {Value(1), pair(0, -1)}), 0u);
  CHECK_EQ(conv2d(image, point, {Value(1), Value(0), pair(1, 0)}), 0u);
  // The channels are those of the input.
  CHECK_EQ(conv2d({2, 4, 5, 5}, {3, 0, 1, 1}), 1200u);
}

TEST(sizes_of_a_convolution_end_where_sums_could_overflow) {
  const int64_t most = 2147483648;  // 2^31
  const Value far(most / 2);        // a stride that leaves two places
  CHECK_EQ(conv2d({1, 1, most, 1}, point, {far}), 4u);
  CHECK_EQ(conv2d({1, 1, most + 1, 1}, point, {far}), 0u);
  CHECK_EQ(conv2d({1, 1, 1, most}, point, {far}), 4u);
  CHECK_EQ(conv2d({1, 1, 1, most + 1}, point, {far}), 0u);
  const Value farther(2 * most);
  CHECK_EQ(conv2d(image, point, {farther, Value(most)}), 8u);
  CHECK_EQ(conv2d(image, point, {farther, pair(most, 0)}), 4u);
  CHECK_EQ(conv2d(image, point, {farther, pair(most + 1, 0)}), 0u);
  CHECK_EQ(conv2d(image, point, {farther, pair(0, most + 1)}), 0u);
  // Half of the padding on either side keeps room for the largest kernel.
  const Value down = pair(most / 2, 0), across = pair(0, most / 2);
  CHECK_EQ(conv2d(image, {1, 1, most, 1}, {Value(1), down}), uint64_t{60} << 31);
  CHECK_EQ(conv2d(image, {1, 1, most + 1, 1}, {Value(1), down}), 0u);
  CHECK_EQ(conv2d(image, {1, 1, 1, most}, {Value(1), across}), uint64_t{60} << 31);
  CHECK_EQ(conv2d(image, {1, 1, 1, most + 1}, {Value(1), across}), 0u);
  CHECK_EQ(conv2d(image, point, {Value(1), Value(0), pair(most / 2, 1)}), 50u);
  CHECK_EQ(conv2d(image, point, {Value(1), Value(0), pair(most / 2 + 1, 1)}), 0u);
  CHECK_EQ(conv2d(image, point, {Value(1), Value(0), pair(1, most / 2 + 1)}), 0u);
}

TEST(shapes_have_one_entry_per_argument) {
  const std::vector<Value> inputs = {tensor({2, 3}), Value(1), tensor({}),
                                     Value::list({tensor({4}), tensor({5, 6})}),
                                     Value(std::vector<int64_t>{1, 2})};
  const std::vector<std::vector<int64_t>> plain = {{2, 3}, {}, {}, {}, {}};
  const std::vector<std::vector<int64_t>> flat = {{2, 3}, {}, {}, {4}, {5, 6}, {}};
  CHECK(input_shapes(inputs) == plain);
  CHECK(input_shapes(inputs, true) == flat);
  CHECK(input_shapes({}).empty());
  const std::vector<Value> lists = {Value::list({}), Value::list({1, tensor({7})})};
  const std::vector<std::vector<int64_t>> flat_lists = {{}, {7}};
  CHECK(input_shapes(lists, true) == flat_lists);
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
  producers.produced(10, std::vector<Value>{tensor({1})});  // without an address
  producers.freed(&a);
  const std::vector<ProducerOp> later = {{10, 0}, {}, {}, {}, {}};
  CHECK(producers.of_inputs(inputs) == later);
}
