// SPDX-License-Identifier: Apache-2.0
// Inputs of a RecordFunction as words: what each value takes, and what is left out where there is
// no room for it.
#include <algorithm>
#include <string>
#include <vector>

#include "check.hpp"
#include "fastprof/leader/input_values.hpp"
#include "fastprof/payload/op_inputs/op_inputs.hpp"

using namespace fastprof;

namespace {

constexpr int64_t kNumbers[66] = {3, 4, 5};

TensorDescription tensor(size_t dims, size_t strides) {
  return {Span<const int64_t>(kNumbers, dims),
          Span<const int64_t>(kNumbers, strides),
          DType::float32,
          {},
          nullptr};
}

struct Encoded {
  OpInputs read;
  uint32_t words;
};

Encoded encode(uint32_t capacity, Span<const Value> inputs, Span<const NamedValue> keywords = {}) {
  std::vector<uint64_t> words(capacity + 1, 0xEEEEEEEEEEEEEEEEu);
  Encoded made;
  made.words = encode_input_values(words.data(), capacity, inputs, keywords);
  CHECK(made.words <= capacity);
  CHECK_EQ(words[capacity], 0xEEEEEEEEEEEEEEEEu);
  CHECK(decode_op_inputs(words.data(), made.words, made.read));
  return made;
}

// Checks that a value takes this many words: with one less it is left out, but counted.
OpInput only(const Value& value, uint32_t words) {
  const Value values[] = {value};
  const Encoded fits = encode(1 + words, values);
  CHECK_EQ(fits.words, 1 + words);
  CHECK_EQ(fits.read.given, 1);
  CHECK_EQ(fits.read.inputs.size(), 1);
  const Encoded without = encode(words, values);
  CHECK_EQ(without.words, 1);
  CHECK_EQ(without.read.given, 1);
  CHECK_EQ(without.read.inputs.size(), 0);
  return fits.read.inputs.empty() ? OpInput{} : fits.read.inputs[0];
}

}  // namespace

TEST(plain_values) {
  CHECK_EQ(only(Value(-7), 2).integer, -7);
  CHECK_EQ(only(Value(2.5), 2).real, 2.5);
  const OpInput yes = only(Value(true), 2), no = only(Value(false), 2);
  CHECK(yes.kind == InputKind::boolean && yes.integer == 1);
  CHECK(no.kind == InputKind::boolean && no.integer == 0);
  CHECK_EQ(only(Value("12345678"), 2).text, "12345678");
  CHECK_EQ(only(Value("123456789"), 3).text, "123456789");
  CHECK(only(Value(), 1).kind == InputKind::other);
}

TEST(tensors_with_and_without_strides) {
  const OpInput strided = only(Value(tensor(3, 3)), 5);
  CHECK(strided.has_strides);
  CHECK(strided.sizes == (std::vector<int64_t>{3, 4, 5}));
  CHECK(strided.strides == (std::vector<int64_t>{3, 4, 5}));
  for (const size_t strides : {0, 2, 4}) {  // as many as there are dimensions, or none
    const OpInput sparse = only(Value(tensor(3, strides)), 3);
    CHECK(!sparse.has_strides);
    CHECK(sparse.sizes == (std::vector<int64_t>{3, 4, 5}));
  }
  CHECK_EQ(only(Value(tensor(64, 0)), 33).sizes.size(), 64);
  CHECK(only(Value(tensor(65, 0)), 1).kind == InputKind::undefined);
}

TEST(lists) {
  const OpInput numbers = only(Value(std::vector<int>{5, -6, 7}), 4);
  CHECK(numbers.kind == InputKind::list);
  CHECK_EQ(numbers.items.size(), 3);
  CHECK_EQ(numbers.items[1].integer, -6);
  const OpInput empty = only(Value(std::vector<int>{}), 1);
  CHECK(empty.kind == InputKind::list);
  CHECK_EQ(empty.items.size(), 0);
  const OpInput mixed = only(Value(std::vector<Value>{1, 2.5, "text", true}), 1 + 2 + 2 + 2 + 2);
  CHECK(mixed.kind == InputKind::list);
  CHECK_EQ(mixed.items.size(), 4);
  CHECK_EQ(mixed.items[1].real, 2.5);
  CHECK_EQ(mixed.items[2].text, "text");
  CHECK_EQ(only(Value(std::vector<int>(30, 1)), 31).items.size(), 30);
  CHECK(only(Value(std::vector<int>(31, 1)), 1).kind == InputKind::other);
  // Neither lists nor single tensors in a list.
  CHECK(only(Value(std::vector<Value>{1, std::vector<int>{2}}), 1).kind == InputKind::other);
  CHECK(only(Value(std::vector<Value>{1, tensor(1, 1)}), 1).kind == InputKind::other);
}

TEST(lists_of_tensors_are_cut_to_the_room_there_is) {
  const std::vector<TensorDescription> three(3, tensor(1, 1));  // 3 words each
  const Value values[] = {Value(three)};
  const auto stored = [&](uint32_t capacity, uint32_t words) {
    const Encoded made = encode(capacity, values);
    CHECK_EQ(made.words, words);
    CHECK_EQ(made.read.given, 1);
    if (made.read.inputs.empty()) return -1;
    CHECK(made.read.inputs[0].kind == InputKind::tensor_list);
    CHECK_EQ(made.read.inputs[0].given, 3);
    return static_cast<int>(made.read.inputs[0].items.size());
  };
  CHECK_EQ(stored(12, 11), 3);
  CHECK_EQ(stored(11, 11), 3);
  // A cut list has its number of tensors in a word of its own.
  CHECK_EQ(stored(10, 9), 2);
  CHECK_EQ(stored(9, 9), 2);
  CHECK_EQ(stored(8, 6), 1);
  CHECK_EQ(stored(6, 6), 1);
  CHECK_EQ(stored(5, 3), 0);
  CHECK_EQ(stored(3, 3), 0);
  CHECK_EQ(stored(2, 1), -1);
  CHECK_EQ(stored(1, 1), -1);
}

TEST(keyword_inputs_are_whole_or_left_out) {
  const Value inputs[] = {Value(1)};
  const NamedValue keywords[] = {{"dim", Value(2)}, {"mode", Value("fast")}};
  const auto names = [&](uint32_t capacity, uint32_t words) {
    const Encoded made = encode(capacity, inputs, keywords);
    CHECK_EQ(made.words, words);
    CHECK_EQ(made.read.given, 1);
    std::string found;
    for (const auto& keyword : made.read.keywords) found += keyword.first + " ";
    return found;
  };
  CHECK_EQ(names(11, 11), "dim mode ");
  CHECK_EQ(names(10, 7), "dim ");
  CHECK_EQ(names(9, 7), "dim ");  // room for the name alone
  CHECK_EQ(names(7, 7), "dim ");
  CHECK_EQ(names(6, 3), "");
  CHECK_EQ(names(5, 3), "");
}

TEST(the_first_input_without_room_ends_the_inputs) {
  const Value inputs[] = {Value(1), Value("a text of 24 characters."), Value(3)};
  const Encoded made = encode(6, inputs);  // room for the third, not for the second
  CHECK_EQ(made.read.given, 3);
  CHECK_EQ(made.read.inputs.size(), 1);
  CHECK_EQ(made.words, 3);
}

TEST(up_to_65535_inputs_are_stored) {
  const std::vector<Value> many(65537, Value(1));
  const std::vector<NamedValue> named(65537, NamedValue{"k", Value()});
  const Encoded made = encode(1000000, Span<const Value>(many), Span<const NamedValue>(named));
  CHECK_EQ(made.read.inputs.size(), 65535);
  CHECK_EQ(made.read.given, 65537);
  CHECK_EQ(made.read.keywords.size(), 65535);
}
