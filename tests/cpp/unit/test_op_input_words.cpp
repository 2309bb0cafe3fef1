// SPDX-License-Identifier: Apache-2.0
// The format of op inputs, which files and Python read too: literal words for each kind of input,
// and what is refused.
#include <cstring>
#include <string>
#include <vector>

#include "../check.hpp"
#include "fastprof/payload/op_inputs/input_words.hpp"

using namespace fastprof;
using Words = std::vector<uint64_t>;

namespace {

// Bits of heads.
constexpr uint64_t kWide = 16, kPacked = 16, kStrides = 32, kCut = 64, kStorage = 128;
constexpr uint64_t kMinus1 = ~uint64_t{0};

uint64_t high(uint64_t value) {
  return value << 32;
}
uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
uint64_t bits_of(const char (&text)[9]) {
  uint64_t bits;
  std::memcpy(&bits, text, sizeof bits);
  return bits;
}

// The only input of a block that is these words.
OpInput only(const Words& item) {
  Words words = {1 | high(1)};
  words.insert(words.end(), item.begin(), item.end());
  OpInputs inputs;
  CHECK(decode_op_inputs(words.data(), words.size(), inputs));
  CHECK_EQ(inputs.inputs.size(), 1u);
  CHECK(inputs.keywords.empty());
  inputs.inputs.resize(1);
  // Every word is needed.
  for (size_t size = 0; size < words.size(); ++size) {
    const Words cut(words.begin(), words.begin() + static_cast<long>(size));
    OpInputs none;
    CHECK(!decode_op_inputs(cut.data(), cut.size(), none));
    CHECK(none.inputs.empty());
  }
  return inputs.inputs[0];
}

// What `put` puts in a room of `capacity` words; nothing is written behind it.
template <class Put>
Words written(uint32_t capacity, bool fits, Put put) {
  Words words(capacity + 1, 5);
  InputWords to = InputWords::amid(words.data(), words.data() + capacity);
  CHECK_EQ(put(to), fits);
  CHECK_EQ(words.back(), 5u);
  words.resize(static_cast<size_t>(to.position() - words.data()));
  return words;
}
// Of the least room that suffices; in less, nothing is put.
template <class Put>
Words words_of(uint32_t room, Put put) {
  for (uint32_t less = 0; less < room; ++less) CHECK(written(less, false, put).empty());
  return written(room, true, put);
}

}  // namespace

TEST(kinds_and_bits_are_numbered) {
  const InputKind kinds[] = {InputKind::other,   InputKind::tensor, InputKind::undefined,
                             InputKind::integer, InputKind::real,   InputKind::boolean,
                             InputKind::complex, InputKind::list,   InputKind::tensor_list,
                             InputKind::text};
  for (int i = 0; i < 10; ++i) CHECK_EQ(kinds[i], static_cast<InputKind>(i));
  CHECK_EQ(input_bit::wide, kWide);
  CHECK_EQ(input_bit::packed, kPacked);
  CHECK_EQ(input_bit::strides, kStrides);
  CHECK_EQ(input_bit::cut, kCut);
  CHECK_EQ(input_bit::storage, kStorage);
  CHECK(kMaxInputDims == 64 && kMaxInputListLength == 30 && kMaxInputTextBytes == 256);
  CHECK(kMaxSmallDims == 4 && kSmallTensorWords == 5);
}

TEST(an_input_without_a_value_has_the_values_of_none) {
  const OpInput none;
  CHECK(none.kind == InputKind::other && none.dtype == 0 && !none.has_strides && !none.cut);
  CHECK(none.storage == 0 && none.integer == 0 && none.real == 0 && none.imaginary == 0);
  CHECK(none.given == 0 && OpInputs{}.given == 0);
  CHECK(only({0}).kind == InputKind::other);
  CHECK(only({2}).kind == InputKind::undefined);
}

TEST(the_first_word_has_three_numbers) {
  const Words words = {2 | 1 << 16 | high(5), 2, 0, 9 | high(1), 'k', 3, 44};
  OpInputs inputs;
  CHECK(decode_op_inputs(words.data(), words.size(), inputs));
  CHECK_EQ(inputs.given, 5u);
  CHECK(inputs.inputs.size() == 2 && inputs.inputs[0].kind == InputKind::undefined);
  CHECK_EQ(inputs.keywords.size(), 1u);
  CHECK_EQ(inputs.keywords[0].first, "k");
  CHECK_EQ(inputs.keywords[0].second.integer, 44);
  for (size_t size = 0; size < words.size(); ++size) {
    const Words cut(words.begin(), words.begin() + static_cast<long>(size));
    OpInputs some;
    CHECK(!decode_op_inputs(cut.data(), cut.size(), some));
    CHECK_EQ(some.inputs.size(), size < 2 ? 0u : size < 3 ? 1u : 2u);
    CHECK(some.keywords.empty());
  }
  const Words unnamed = {1 << 16, 3, 7, 3, 44};  // a name that is no text
  OpInputs none;
  CHECK(!decode_op_inputs(unnamed.data(), unnamed.size(), none));
  Words head(1);
  uint64_t* const end = head.data() + 1;
  CHECK_EQ(InputWords::finish(head.data(), end, 2, 1, 5), 1u);
  CHECK_EQ(head[0], words[0]);
}

TEST(numbers_are_one_or_two_words) {
  OpInput input = only({3, kMinus1});
  CHECK(input.kind == InputKind::integer && input.integer == -1);
  input = only({4, bits_of(0.5)});
  CHECK(input.kind == InputKind::real && input.real == 0.5);
  input = only({5, 1});
  CHECK(input.kind == InputKind::boolean && input.integer == 1);
  input = only({6, bits_of(0.5), bits_of(-2)});
  CHECK(input.kind == InputKind::complex && input.real == 0.5 && input.imaginary == -2);
  CHECK(words_of(2, [](InputWords& to) { return to.put_integer(-7); }) ==
        (Words{3, static_cast<uint64_t>(int64_t{-7})}));
  CHECK(words_of(2, [](InputWords& to) { return to.put_number(InputKind::boolean, 1); }) ==
        (Words{5, 1}));
  CHECK(words_of(3, [](InputWords& to) { return to.put_complex({8, 9}); }) == (Words{6, 8, 9}));
  CHECK(words_of(1, [](InputWords& to) { return to.put(InputKind::undefined); }) == (Words{2}));
  CHECK(words_of(1, [](InputWords& to) { return to.put(InputKind::tensor_list, kCut, 3); }) ==
        (Words{8 | kCut | high(3)}));
  // One word of two that must be there.
  CHECK(words_of(2, [](InputWords& to) { return to.put_scalar(InputKind::other, 6, 1); }) ==
        (Words{0}));
}

TEST(tensors_have_sizes_and_perhaps_strides_and_an_address) {
  const uint64_t two_dims = 1 | 2 << 8 | 7 << 16;
  OpInput input = only({two_dims, 3 | high(4)});
  CHECK(input.kind == InputKind::tensor && input.dtype == 7 && !input.has_strides);
  CHECK(input.sizes == (std::vector<int64_t>{3, 4}) && input.strides.empty());
  CHECK_EQ(input.storage, 0u);
  input = only({two_dims | kStrides, 3 | high(4), 4 | high(1)});
  CHECK(input.has_strides && input.strides == (std::vector<int64_t>{4, 1}));
  input = only({two_dims | kStorage, 3 | high(4), 0xABCD});
  CHECK(input.storage == 0xABCD && input.strides.empty());
  input = only({two_dims | kStorage | kStrides, 3 | high(4), 4 | high(1), 0xABCD});
  CHECK(input.storage == 0xABCD && input.strides.size() == 2);
  input = only({two_dims | kWide | kStrides, high(1), 4, kMinus1, 1});
  CHECK(input.sizes == (std::vector<int64_t>{int64_t{1} << 32, 4}));
  CHECK(input.strides == (std::vector<int64_t>{-1, 1}));
  input = only({1 | 3 << 8, 0xFFFFFFFF | high(2), 5});  // the last half is of no dimension
  CHECK(input.sizes == (std::vector<int64_t>{0xFFFFFFFF, 2, 5}));
  CHECK(only({1 | kStrides}).sizes.empty());  // no dimensions
  input = only({1 | 1 << 8 | 0xFFFFull << 16, 6});
  CHECK(input.dtype == 0xFFFF && input.sizes.size() == 1);
}

TEST(tensors_are_put_as_they_are_read) {
  const int64_t sizes[] = {3, 4, 5, 6}, strides[] = {20, 5, 1, 2};
  const auto put = [](uint32_t room, const int64_t* of_sizes, const int64_t* of_strides,
                      uint32_t dims) {
    return words_of(
        room, [&](InputWords& to) { return to.put_tensor(0xFFFF, of_sizes, of_strides, dims); });
  };
  const uint64_t head = 1 | 0xFFFFull << 16;
  CHECK(put(1, sizes, nullptr, 0) == (Words{head}));
  CHECK(put(2, sizes, nullptr, 1) == (Words{head | 1 << 8, 3}));
  CHECK(put(2, sizes, nullptr, 2) == (Words{head | 2 << 8, 3 | high(4)}));
  CHECK(put(5, sizes, strides, 3) ==
        (Words{head | 3 << 8 | kStrides, 3 | high(4), 5, 20 | high(5), 1}));
  const int64_t narrow[] = {0xFFFFFFFF, 1}, wide[] = {int64_t{1} << 32, 1}, negative[] = {-1, 1};
  CHECK(put(3, narrow, narrow, 2) ==
        (Words{head | 2 << 8 | kStrides, 0xFFFFFFFF | high(1), 0xFFFFFFFF | high(1)}));
  CHECK(put(3, wide, nullptr, 2) == (Words{head | 2 << 8 | kWide, high(1), 1}));
  CHECK(put(5, sizes, negative, 2) == (Words{head | 2 << 8 | kWide | kStrides, 3, 4, kMinus1, 1}));
}

TEST(small_tensors_are_put_into_five_words) {
  const int64_t sizes[] = {3, 4, 5, 6}, strides[] = {20, 5, 1, 2};
  const uint64_t head = 1 | kStrides | 7 << 16;
  const Words expected[] = {{head},
                            {head | 1 << 8, 3, 20},
                            {head | 2 << 8, 3 | high(4), 20 | high(5)},
                            {head | 3 << 8, 3 | high(4), 5, 20 | high(5), 1},
                            {head | 4 << 8, 3 | high(4), 5 | high(6), 20 | high(5), 1 | high(2)}};
  for (uint32_t dims = 0; dims <= 4; ++dims) {
    CHECK_EQ(small_number_words(dims), (expected[dims].size() - 1) / 2);
    CHECK(words_of(5, [&](InputWords& to) {
            return to.put_small_tensor(7, sizes, strides, dims);
          }) == expected[dims]);
  }
  // A number above 32 bits counts where the tensor has that dimension.
  for (uint32_t i = 0; i < 4; ++i) {
    for (const bool of_strides : {false, true}) {
      int64_t large[2][4] = {{3, 4, 5, 6}, {20, 5, 1, 2}};
      for (const int64_t number : {int64_t{1} << 32, int64_t{-1}}) {
        large[of_strides][i] = number;
        for (uint32_t dims = 0; dims <= 4; ++dims) {
          uint64_t words[4];
          CHECK_EQ(put_small_numbers(words, large[0], large[1], dims), dims <= i);
          CHECK_EQ(put_small_numbers_one_by_one(words, large[0], large[1], dims), dims <= i);
          CHECK_EQ(written(5, dims <= i,
                           [&](InputWords& to) {
                             return to.put_small_tensor(7, large[0], large[1], dims);
                           })
                       .empty(),
                   dims > i);
        }
      }
    }
  }
  for (uint32_t dims = 0; dims <= 4; ++dims) {
    uint64_t words[4] = {};
    CHECK(put_small_numbers_one_by_one(words, sizes, strides, dims));
    CHECK(Words(words, words + 2 * small_number_words(dims)) ==
          Words(expected[dims].begin() + 1, expected[dims].end()));
  }
}

TEST(lists_have_items_or_packed_integers) {
  OpInput input = only({7 | high(3), 3, 11, 0, 9 | high(1), 'x'});
  CHECK(input.kind == InputKind::list && input.items.size() == 3);
  CHECK_EQ(input.items[0].integer, 11);
  CHECK(input.items[1].kind == InputKind::other);
  CHECK_EQ(input.items[2].text, "x");
  input = only({7 | kPacked | high(2), 11, kMinus1});
  CHECK(input.items.size() == 2 && input.items[0].kind == InputKind::integer);
  CHECK(input.items[0].integer == 11 && input.items[1].integer == -1);
  CHECK(only({7}).items.empty());
  CHECK(only({7 | kPacked}).items.empty());
  const auto two = [](InputWords& to) {
    uint64_t* const room = to.room_for_packed_list(2);
    if (room == nullptr) return false;
    room[0] = 11;
    room[1] = 12;
    to.finish_packed_list(2);
    return true;
  };
  CHECK(words_of(3, two) == (Words{7 | kPacked | high(2), 11, 12}));
  // A list of numbers in a list is read; one of items is not.
  input = only({7 | high(1), 7 | kPacked | high(1), 5});
  CHECK_EQ(input.items[0].items[0].integer, 5);
  for (const Words& words :
       {Words{1, 7 | high(1), 7 | high(1), 0, 0}, Words{1, 8 | high(1), 8 | high(1), 0, 0},
        Words{1, 7 | high(3), 0, 0},  // more items than words
        Words{1, 7 | kPacked | high(3), 0, 0}}) {
    OpInputs none;
    CHECK(!decode_op_inputs(words.data(), words.size(), none));
  }
}

TEST(lists_of_tensors_may_be_cut) {
  OpInput input = only({8 | high(2), 1 | 1 << 8, 6, 2});
  CHECK(input.kind == InputKind::tensor_list && input.given == 2 && input.items.size() == 2);
  CHECK(input.items[0].sizes == (std::vector<int64_t>{6}));
  CHECK(input.items[1].kind == InputKind::undefined);
  input = only({8 | kCut | high(50), 1, 1 | 1 << 8, 6});
  CHECK(input.given == 50 && input.items.size() == 1);
  input = only({8 | kCut | high(50), 0});
  CHECK(input.given == 50 && input.items.empty());
}

TEST(texts_have_eight_bytes_a_word) {
  OpInput input = only({9 | high(8), bits_of("12345678")});
  CHECK(input.kind == InputKind::text && input.text == "12345678" && !input.cut);
  input = only({9 | kCut | high(9), bits_of("12345678"), '9'});
  CHECK(input.text == "123456789" && input.cut);
  CHECK(only({9}).text.empty());
  const std::string text(300, 'x');
  const auto put = [&](uint32_t room, size_t length) {
    return words_of(room, [&](InputWords& to) { return to.put_text(text.data(), length); });
  };
  const uint64_t full = bits_of("xxxxxxxx");
  CHECK(put(1, 0) == (Words{9}));
  CHECK(put(2, 1) == (Words{9 | high(1), 'x'}));
  CHECK(put(2, 8) == (Words{9 | high(8), full}));
  CHECK(put(3, 9) == (Words{9 | high(9), full, 'x'}));
  Words longest(33, full);
  longest[0] = 9 | high(256);
  CHECK(put(33, 256) == longest);
  longest[0] |= kCut;
  CHECK(put(33, 257) == longest);
}

TEST(words_may_be_left_and_taken_back) {
  Words words(4, 5);
  InputWords to(words.data(), 4);  // behind the block's first word
  CHECK(to.position() == words.data() + 1);
  uint64_t* const left = to.leave_word();
  CHECK(left == words.data() + 1 && to.position() == words.data() + 2);
  CHECK(to.put_integer(3));
  CHECK(to.leave_word() == nullptr && !to.put(InputKind::other));
  to.back_to(left);
  CHECK(to.put(InputKind::undefined));
  CHECK(words == (Words{5, 2, 3, 3}));
  CHECK_EQ(InputWords::finish(words.data(), to.position(), 1, 0, 1), 2u);
}

TEST(kinds_that_do_not_exist_are_refused) {
  for (uint64_t kind = 10; kind < 16; ++kind) {
    const Words words = {1, kind, 0, 0};
    OpInputs none;
    CHECK(!decode_op_inputs(words.data(), words.size(), none));
  }
}
