// SPDX-License-Identifier: Apache-2.0
// Inputs of ops as words: what is put is what is read, and what does not fit is left out; their
// texts.
#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "../check.hpp"
#include "fastprof/export/op_inputs_text.hpp"
#include "fastprof/payload/op_inputs/input_words.hpp"

using namespace fastprof;

namespace {

struct Words {
  std::vector<uint64_t> memory;
  InputWords put;
  uint32_t stored = 0;
  explicit Words(uint32_t capacity = 1000)
      : memory(capacity, 0xEEEEEEEEEEEEEEEEu), put(memory.data(), capacity) {}
  void add(bool fits) { stored += fits ? 1 : 0; }
  uint32_t finish(uint32_t keywords = 0, uint64_t left_out = 0) {
    return InputWords::finish(memory.data(), put.position(), stored, keywords, stored + left_out);
  }
  OpInputs read() {
    OpInputs inputs;
    CHECK(decode_op_inputs(memory.data(), finish(), inputs));
    return inputs;
  }
};

uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

bool put_packed_list(InputWords& put, const std::vector<int64_t>& numbers) {
  const auto count = static_cast<uint32_t>(numbers.size());
  uint64_t* const words = put.room_for_packed_list(count);
  if (words == nullptr) return false;
  for (uint32_t i = 0; i < count; ++i) words[i] = static_cast<uint64_t>(numbers[i]);
  put.finish_packed_list(count);
  return true;
}

}  // namespace

TEST(tensors_of_any_shape_and_stride) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3000; ++round) {
    const auto dims = static_cast<uint32_t>(random() % 9);
    constexpr int64_t nothing = 0;  // vectors of nothing have no address
    std::vector<int64_t> sizes, strides(dims, 1);
    for (uint32_t i = 0; i < dims; ++i) {
      const uint64_t range = random() % 40;
      sizes.push_back(static_cast<int64_t>(random() >> (63 - range)));
    }
    const uint64_t how = random() % 3;
    for (uint32_t i = dims; how == 0 && i-- > 1;) {
      const uint64_t size = static_cast<uint64_t>(sizes[i] > 1 ? sizes[i] : 1);
      strides[i - 1] = static_cast<int64_t>(static_cast<uint64_t>(strides[i]) * size);
    }
    for (uint32_t i = 0; how == 1 && i < dims; ++i)
      strides[i] = static_cast<int64_t>(random() >> (24 + random() % 39));
    Words words;
    const auto dtype = static_cast<uint16_t>(random() % 3 == 0 ? random() : random() % 46);
    const int64_t* given = dims != 0 ? strides.data() : &nothing;
    words.add(words.put.put_tensor(dtype, sizes.data(), how == 2 ? nullptr : given, dims));
    const OpInputs inputs = words.read();
    CHECK_EQ(inputs.inputs.size(), size_t{1});
    const OpInput& tensor = inputs.inputs[0];
    CHECK(tensor.kind == InputKind::tensor);
    CHECK_EQ(tensor.dtype, dtype);
    CHECK(tensor.sizes == sizes);
    CHECK_EQ(tensor.has_strides, how != 2);
    CHECK(tensor.strides == (how == 2 ? std::vector<int64_t>{} : strides));
  }
}

TEST(small_tensors_are_put_alike) {
  std::mt19937_64 random(11);
  int put = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto dims = static_cast<uint32_t>(random() % 5);
    int64_t sizes[4], strides[4];
    for (uint32_t i = 0; i < 4; ++i) {
      // Those behind `dims` may be anything.
      const bool any = i >= dims || random() % 16 == 0;
      sizes[i] = static_cast<int64_t>(any ? random() >> (random() % 64) : random() % 9);
      strides[i] = static_cast<int64_t>(any ? random() >> (random() % 64) : random() % 999);
    }
    uint64_t words[kSmallTensorWords - 1] = {}, one_by_one[kSmallTensorWords - 1] = {};
    const bool narrow = put_small_numbers(words, sizes, strides, dims);
    CHECK_EQ(narrow, put_small_numbers_one_by_one(one_by_one, sizes, strides, dims));
    if (narrow) CHECK(std::equal(words, words + 2 * small_number_words(dims), one_by_one));

    Words small(static_cast<uint32_t>(random() % 3 == 0 ? 1 + random() % 4 : 20)), other(20);
    CHECK(other.put.put_tensor(7, sizes, strides, dims));
    uint64_t* const before = small.put.position();
    if (!small.put.put_small_tensor(7, sizes, strides, dims)) {
      CHECK(small.put.position() == before);
      continue;
    }
    ++put;
    CHECK(narrow);
    const size_t used = small.finish();
    CHECK_EQ(used, other.finish());
    CHECK(std::equal(small.memory.begin(), small.memory.begin() + static_cast<long>(used),
                     other.memory.begin()));
  }
  CHECK(put > 5000);
}

TEST(what_does_not_fit_is_left_out_whole) {
  const int64_t sizes[] = {2, 3, 4, 5};
  const int64_t strides[] = {1, 9, 9, 9};
  for (uint32_t capacity = 2; capacity < 40; ++capacity) {
    Words words(capacity);
    uint32_t fitted = 0;
    while (words.put.put_tensor(6, sizes, strides, 4)) ++fitted;
    CHECK_EQ(fitted, (capacity - 1) / 5);
    while (words.put.put_number(InputKind::real, bits_of(1))) ++fitted;
    while (words.put.put(InputKind::other)) ++fitted;
    words.stored = fitted;
    CHECK_EQ(words.finish(0, 7), capacity);
    OpInputs inputs;
    CHECK(decode_op_inputs(words.memory.data(), capacity, inputs));
    CHECK_EQ(inputs.inputs.size(), size_t{fitted});
    CHECK_EQ(inputs.given, uint64_t{fitted} + 7);
  }
}

TEST(texts_are_those_of_kineto) {
  Words words;
  const int64_t sizes[] = {4, 3}, strides[] = {1, 4};
  words.add(words.put.put_tensor(6, sizes, strides, 2));
  words.add(words.put.put_number(InputKind::real, bits_of(2)));
  words.add(words.put.put_number(InputKind::real, bits_of(0.1)));
  words.add(words.put.put_number(InputKind::boolean, 0));
  words.add(put_packed_list(words.put, {1, -2}));
  words.add(words.put.put(InputKind::tensor_list, 0, 2));
  words.put.put_tensor(11, sizes, nullptr, 1);
  words.put.put(InputKind::undefined);
  words.add(words.put.put_complex({bits_of(2), bits_of(-3)}));
  words.add(words.put.put(InputKind::other));
  const uint32_t used = words.finish(0, 1);
  const OpInputTexts texts = op_input_texts(words.memory.data(), used);
  CHECK_EQ(texts.inputs[0].second, "[[4, 3], [], [], [], [], [[4], []], [], [], \"...\"]");
  CHECK_EQ(texts.inputs[1].second, "[[1, 4], [], [], [], [], [[], []], [], [], \"...\"]");
  CHECK_EQ(texts.inputs[2].second,
           "[\"float\", \"Scalar\", \"Scalar\", \"Scalar\", \"ScalarList\", \"TensorList\", "
           "\"Scalar\", \"\", \"...\"]");
  CHECK_EQ(texts.inputs[3].second,
           "[\"\", \"2.\", \"0.10000000000000001\", \"False\", \"[1, -2]\", \"\", \"2.-3.j\", "
           "\"\", \"...\"]");
}

TEST(lists_longer_than_30_show_30_and_the_last) {
  Words words;
  words.add(words.put.put(InputKind::tensor_list, 0, 33));
  for (int64_t i = 0; i < 33; ++i) words.put.put_tensor(6, &i, nullptr, 1);
  const uint32_t used = words.finish();
  const std::string dims = op_input_texts(words.memory.data(), used).inputs[0].second;
  CHECK(dims.find("[29], \"...\", [32]]]") != std::string::npos);
}

namespace {

// The text of one input in a column of the inputs ("Input Dims", ...), without the brackets around.
std::string shown(const Words& words, size_t column, uint32_t used) {
  const OpInputTexts texts = op_input_texts(words.memory.data(), used);
  if (texts.inputs.size() != 4) return "no inputs";
  const std::string& text = texts.inputs[column].second;
  return text.substr(1, text.size() - 2);
}

}  // namespace

TEST(real_numbers_are_shown_as_pytorch_prints_them) {
  const std::pair<double, const char*> cases[] = {
      {0, "0."},
      {-3, "-3."},
      {9999999999.0, "9999999999."},
      {1e10, "10000000000"},
      {-1e10, "-10000000000"},
      {0.5, "0.5"},
      {-2.5, "-2.5"},
      {5e-324, "4.9406564584124654e-324"},
      {std::numeric_limits<double>::infinity(), "inf"},
  };
  for (const auto& [value, text] : cases) {
    Words words;
    words.add(words.put.put_number(InputKind::real, bits_of(value)));
    const uint32_t used = words.finish();
    CHECK_EQ(shown(words, 3, used), '"' + std::string(text) + '"');
  }
  const std::pair<double, const char*> parts[] = {
      {3, "\"2.+3.j\""}, {0, "\"2.+0.j\""}, {-0.0, "\"2.-0.j\""}, {-0.5, "\"2.-0.5j\""}};
  for (const auto& [imaginary, text] : parts) {
    Words words;
    words.add(words.put.put_complex({bits_of(2), bits_of(imaginary)}));
    const uint32_t used = words.finish();
    CHECK_EQ(shown(words, 3, used), std::string(text));
    CHECK_EQ(shown(words, 2, used), std::string("\"Scalar\""));
  }
}

TEST(keywords_of_every_kind) {
  Words words;
  const auto name = [&](const char* text) { words.put.put_text(text, std::strlen(text)); };
  name("yes");
  words.put.put_number(InputKind::boolean, 1);
  name("no");
  words.put.put_number(InputKind::boolean, 0);
  name("real");
  words.put.put_number(InputKind::real, bits_of(0.5));
  name("long");
  words.put.put_text(std::string(300, 'x').data(), 300);
  name("list");
  words.put.put(InputKind::list, 0, 3);
  words.put.put_integer(1);
  words.put.put(InputKind::other);
  words.put.put_number(InputKind::boolean, 1);
  for (const char* unshown : {"complex", "tensor"}) {
    name(unshown);
    if (*unshown == 'c')
      words.put.put_complex({bits_of(1), bits_of(1)});
    else
      words.put.put_tensor(6, nullptr, nullptr, 0);
  }
  const uint32_t used = words.finish(7);
  const OpInputTexts texts = op_input_texts(words.memory.data(), used);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"yes", "true"},
      {"no", "false"},
      {"real", "0.5"},
      {"long", '"' + std::string(kMaxInputTextBytes, 'x') + "...\""},
      {"list", "[1, null, true]"}};
  CHECK(texts.keywords == expected);
}
