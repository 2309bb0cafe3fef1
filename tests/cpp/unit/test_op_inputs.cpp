// SPDX-License-Identifier: Apache-2.0
// Inputs of ops as words: what is put is what is read, what does not fit is left out, and words
// that nobody has put are read without harm.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "../check.hpp"
#include "fastprof/export/op_inputs_text.hpp"
#include "fastprof/range_detail/input_words.hpp"

using namespace fastprof;

namespace {

struct Words {
  std::vector<uint64_t> memory;
  InputWords put;
  uint32_t stored = 0;
  explicit Words(uint32_t capacity = 1000)
      : memory(capacity, 0xEEEEEEEEEEEEEEEEu), put(memory.data(), capacity) {}
  void add(bool fits) { stored += fits ? 1 : 0; }
  OpInputs read(uint32_t keywords = 0) {
    const uint32_t used = put.finish(stored, keywords, stored);
    OpInputs inputs;
    CHECK(decode_op_inputs(memory.data(), used, inputs));
    return inputs;
  }
};

uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
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
    const auto dtype = static_cast<uint8_t>(random() % 46);
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
    for (int i = 0; i < 4; ++i) {
      sizes[i] =
          static_cast<int64_t>(random() % 4 == 0 ? random() >> (random() % 64) : random() % 9);
      strides[i] = static_cast<int64_t>(random());
    }
    int64_t expected = 1;
    for (uint32_t i = dims; i-- > 0;) {
      strides[i] = random() % 16 == 0 ? expected + 1 : expected;
      expected = static_cast<int64_t>(static_cast<uint64_t>(expected) *
                                      static_cast<uint64_t>(sizes[i] > 1 ? sizes[i] : 1));
    }
    uint64_t words[kSmallTensorWords] = {}, one_by_one[kSmallTensorWords] = {};
    const SmallTensor tensor = put_small_numbers(words, sizes, strides, dims);
    const SmallTensor same = put_small_numbers_one_by_one(one_by_one, sizes, strides, dims);
    CHECK_EQ(tensor.wide != 0, same.wide != 0);
    if (tensor.wide == 0) {
      CHECK_EQ(tensor.dense, same.dense);
      for (size_t i = 0; i < 2 * dims; ++i)
        CHECK(std::memcmp(reinterpret_cast<char*>(words) + 4 + 4 * i,
                          reinterpret_cast<char*>(one_by_one) + 4 + 4 * i, 4) == 0);
    }
    Words small(static_cast<uint32_t>(random() % 3 == 0 ? 1 + random() % 4 : 20)), other(20);
    CHECK(other.put.put_tensor(7, sizes, strides, dims));
    uint64_t* const before = small.put.position();
    if (!small.put.put_small_tensor(7, sizes, strides, dims)) {
      CHECK(small.put.position() == before);
      continue;
    }
    ++put;
    const size_t used = small.put.finish(1, 0, 1);
    CHECK_EQ(used, other.put.finish(1, 0, 1));
    CHECK(std::equal(small.memory.begin(), small.memory.begin() + used, other.memory.begin()));
  }
  CHECK(put > 5000);
}

TEST(scalars_without_a_branch_are_those_with_one) {
  constexpr int64_t edges[] = {
      0, 1, -1, 2147483647, -2147483648LL, 2147483648LL, -2147483649LL, INT64_MAX, INT64_MIN};
  // Every room from none to plenty: what does not fit is refused, and nothing of it is there. What
  // has no short way is put by its kind.
  for (uint32_t capacity = 2; capacity < 24; ++capacity) {
    Words by_code(capacity), by_kind(capacity);
    for (const int64_t edge : edges) {
      const bool put = by_code.put.put_scalar(kPutInteger, static_cast<uint64_t>(edge));
      CHECK(!put || edge == static_cast<int32_t>(edge));
      by_code.add(put || by_code.put.put_integer(edge));
      by_kind.add(by_kind.put.put_integer(edge));
    }
    for (const uint64_t value : {uint64_t{0xABCD00}, uint64_t{0xABCD01}}) {
      by_code.add(by_code.put.put_scalar(kPutBoolean, value) ||
                  by_code.put.put(InputKind::boolean, 0, static_cast<uint32_t>(value & 1)));
      by_kind.add(by_kind.put.put(InputKind::boolean, 0, static_cast<uint32_t>(value & 1)));
    }
    by_code.add(by_code.put.put_scalar(kPutReal, bits_of(-0.1)) ||
                by_code.put.put_real(bits_of(-0.1)));
    by_kind.add(by_kind.put.put_real(bits_of(-0.1)));
    by_code.add(by_code.put.put_scalar(kPutOther, 77) || by_code.put.put(InputKind::other));
    by_kind.add(by_kind.put.put(InputKind::other));
    CHECK_EQ(by_code.stored, by_kind.stored);
    const uint32_t used = by_code.put.finish(by_code.stored, 0, 13);
    CHECK_EQ(used, by_kind.put.finish(by_kind.stored, 0, 13));
    by_code.memory.resize(used);
    by_kind.memory.resize(used);
    CHECK(by_code.memory == by_kind.memory);
  }
}

TEST(a_packed_list_in_place_is_the_one_put_at_once) {
  std::mt19937_64 random(11);
  for (uint32_t count = 1; count <= kMaxInputListLength; ++count) {
    std::vector<int64_t> numbers;
    for (uint32_t i = 0; i < count; ++i) numbers.push_back(static_cast<int32_t>(random()));
    for (const uint32_t capacity : {1 + (count + 1) / 2, 2 + (count + 1) / 2}) {
      Words at_once(capacity), in_place(capacity);
      const bool fits = at_once.put.put_packed_list(numbers.data(), count);
      uint64_t* const words = in_place.put.room_for_packed_list(count);
      CHECK_EQ(words != nullptr, fits);
      CHECK_EQ(fits, capacity == 2 + (count + 1) / 2);
      if (words == nullptr) continue;
      for (uint32_t i = 0; i < count; i += 2)
        words[i / 2] = static_cast<uint32_t>(numbers[i]) |
                       (i + 1 < count ? static_cast<uint64_t>(numbers[i + 1]) << 32 : 0);
      in_place.put.finish_packed_list(count);
      CHECK_EQ(in_place.put.finish(1, 0, 1), at_once.put.finish(1, 0, 1));
      CHECK(in_place.memory == at_once.memory);
    }
  }
}

TEST(numbers_lists_and_texts) {
  constexpr int64_t edges[] = {
      0, 1, -1, 2147483647, -2147483648LL, 2147483648LL, -2147483649LL, INT64_MAX, INT64_MIN};
  Words words;
  for (const int64_t edge : edges) words.add(words.put.put_integer(edge));
  words.add(words.put.put_real(bits_of(-0.1)));
  words.add(words.put.put_complex({bits_of(2), bits_of(-3)}));
  words.add(words.put.put(InputKind::boolean, 0, 1));
  constexpr int64_t list[] = {3, -4, 5};
  words.add(words.put.put_packed_list(list, 3));
  words.add(words.put.put_packed_list(list, 0));
  const std::string text(300, 'x');
  words.add(words.put.put_text(text.data(), 9));
  words.add(words.put.put_text(text.data(), text.size()));
  words.add(words.put.put(InputKind::undefined));
  const OpInputs inputs = words.read();
  const std::vector<OpInput>& in = inputs.inputs;
  CHECK_EQ(in.size(), size_t{17});
  for (size_t i = 0; i < 9; ++i) CHECK_EQ(in[i].integer, edges[i]);
  CHECK_EQ(in[9].real, -0.1);
  CHECK(in[10].real == 2 && in[10].imaginary == -3);
  CHECK_EQ(in[11].integer, int64_t{1});
  CHECK(in[12].items.size() == 3 && in[12].items[1].integer == -4 && in[12].items[2].integer == 5);
  CHECK(in[13].items.empty());
  CHECK_EQ(in[14].text, std::string(9, 'x'));
  CHECK_EQ(in[15].text.size(), size_t{kMaxInputTextBytes});
  CHECK(in[16].kind == InputKind::undefined);
}

TEST(what_does_not_fit_is_left_out_whole) {
  const int64_t sizes[] = {2, 3, 4, 5};
  const int64_t strides[] = {1, 9, 9, 9};
  for (uint32_t capacity = 2; capacity < 40; ++capacity) {
    Words words(capacity);
    uint32_t fitted = 0;
    while (words.put.put_tensor(6, sizes, strides, 4)) ++fitted;
    CHECK_EQ(fitted, (capacity - 1) / 5);
    while (words.put.put_real(bits_of(1))) ++fitted;
    while (words.put.put(InputKind::other)) ++fitted;
    words.stored = fitted;
    CHECK_EQ(words.put.finish(fitted, 0, fitted + 7), capacity);
    OpInputs inputs;
    CHECK(decode_op_inputs(words.memory.data(), capacity, inputs));
    CHECK_EQ(inputs.inputs.size(), size_t{fitted});
    CHECK_EQ(inputs.given, uint64_t{fitted} + 7);
  }
}

TEST(words_that_nobody_put) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint64_t> words(random() % 12);
    for (uint64_t& word : words) word = random() >> random() % 64;
    if (!words.empty()) words[0] &= 0x3F0007003Fu;
    OpInputs inputs;
    decode_op_inputs(words.data(), words.size(), inputs);
    CHECK(inputs.inputs.size() <= 64);
    op_input_texts(words.data(), words.size());
  }
  CHECK(op_input_texts(nullptr, 0).inputs.empty());
}

TEST(texts_are_those_of_kineto) {
  Words words;
  const int64_t sizes[] = {4, 3}, strides[] = {1, 4};
  words.add(words.put.put_tensor(6, sizes, strides, 2));
  words.add(words.put.put_real(bits_of(2)));
  words.add(words.put.put_real(bits_of(0.1)));
  words.add(words.put.put(InputKind::boolean, 0, 0));
  constexpr int64_t list[] = {1, -2};
  words.add(words.put.put_packed_list(list, 2));
  words.add(words.put.put(InputKind::tensor_list, 0, 2));
  words.put.put_tensor(11, sizes, nullptr, 1);
  words.put.put(InputKind::undefined);
  words.add(words.put.put_complex({bits_of(2), bits_of(-3)}));
  words.add(words.put.put(InputKind::other));
  const uint32_t used = words.put.finish(words.stored, 0, words.stored + 1);
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
  const uint32_t used = words.put.finish(1, 0, 1);
  const std::string dims = op_input_texts(words.memory.data(), used).inputs[0].second;
  CHECK(dims.find("[29], \"...\", [32]]]") != std::string::npos);
}

TEST(keywords_by_their_names) {
  Words words;
  words.put.put_text("stream", 6);
  words.put.put_integer(7);
  words.put.put_text("a \"b\"", 5);
  words.put.put(InputKind::list, 0, 1);
  words.put.put_text("c", 1);
  words.put.put_text("none", 4);
  words.put.put(InputKind::other);
  const uint32_t used = words.put.finish(0, 3, 0);
  const OpInputTexts texts = op_input_texts(words.memory.data(), used);
  CHECK(texts.inputs.empty());
  CHECK_EQ(texts.keywords.size(), size_t{2});
  CHECK_EQ(texts.keywords[0].second, "7");
  CHECK_EQ(texts.keywords[1].first, "a \"b\"");
  CHECK_EQ(texts.keywords[1].second, "[\"c\"]");
}
