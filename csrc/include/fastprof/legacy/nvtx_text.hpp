// SPDX-License-Identifier: Apache-2.0
// Formats the text of NVTX ranges as PyTorch does, for tools that parse it.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// The range that produced an input, and the index among its outputs. {0, -1}: unknown, or the input
// is not a tensor.
struct ProducerOp {
  uint64_t handle = 0;
  int64_t output_nr = -1;

  friend bool operator==(const ProducerOp& a, const ProducerOp& b) noexcept {
    return a.handle == b.handle && a.output_nr == b.output_nr;
  }
};

// Builds one text, NUL-terminated, in memory of its own; texts of up to 500 bytes need no
// allocation. Lists go between open_list() and close_list(), their items in order. If memory is
// exhausted, the text ends early.
class NvtxText {
 public:
  NvtxText() noexcept = default;
  ~NvtxText() {
    if (text_ != first_) std::free(text_);
  }
  NvtxText(const NvtxText&) = delete;
  NvtxText& operator=(const NvtxText&) = delete;

  // `name`, ", seq = N" if sequence_nr >= 0, ", op_id = M" if op_id > 0. Once, first.
  FASTPROF_ALWAYS_INLINE void add_head(std::string_view name, int64_t sequence_nr,
                                       uint64_t op_id) noexcept {
    constexpr size_t kNumbersBytes = 64;  // both numbers with their labels
    if (FASTPROF_UNLIKELY(name.size() + kNumbersBytes > capacity_) &&
        !grow(name.size() + kNumbersBytes))
      return;
    char* at = put_text(text_, name);
    if (sequence_nr >= 0) {
      std::memcpy(at, ", seq = ", 8);
      at = put_digits(at + 8, static_cast<uint64_t>(sequence_nr));
    }
    if (op_id > 0) {
      std::memcpy(at, ", op_id = ", 10);
      at = put_digits(at + 10, op_id);
    }
    length_ = static_cast<size_t>(at - text_);
  }

  // Begins ", sizes = [" or ", input_op_ids = [".
  void open_sizes() noexcept { open_list(", sizes = ["); }
  void open_producers() noexcept { open_list(", input_op_ids = ["); }
  void close_list() noexcept { add("]"); }

  // Adds "[2, 3]"; [] for an input that is not a tensor.
  void add_shape(const int64_t* sizes, size_t count) noexcept {
    add(first_item_ ? "[" : ", [");
    first_item_ = false;
    for (size_t i = 0; i < count; ++i) {
      if (i != 0) add(", ");
      add_number(sizes[i]);
    }
    add("]");
  }
  // Adds "(12,0)".
  void add_producer(const ProducerOp& producer) noexcept {
    add(first_item_ ? "(" : ", (");
    first_item_ = false;
    add_number(producer.handle);
    add(",");
    add_number(producer.output_nr);
    add(")");
  }

  const char* c_str() noexcept {
    text_[length_] = '\0';
    return text_;
  }
  std::string_view view() const noexcept { return {text_, length_}; }

 private:
  static constexpr size_t kInlineBytes = 512;

  // Writes a number in decimal, two digits at a time; returns the end. (std::to_chars takes twice
  // the instructions.)
  static FASTPROF_ALWAYS_INLINE char* put_digits(char* to, uint64_t number) noexcept {
    static constexpr char pairs[] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243"
        "4445464748495051525354555657585960616263646566676869707172737475767778798081828384858687"
        "888990919293949596979899";
    unsigned count = 1;
    for (uint64_t bound = 10; number >= bound; bound *= 10)
      if (++count == 20) break;  // 10^20 does not fit
    char* at = to + count;
    for (; number >= 100; number /= 100) std::memcpy(at -= 2, pairs + number % 100 * 2, 2);
    if (number >= 10)
      std::memcpy(to, pairs + number * 2, 2);
    else
      *to = static_cast<char>('0' + number);
    return to + count;
  }

  // Copies a text; returns the end. Names are short: two copies of a fixed size that overlap take a
  // third of the time of a call of memcpy.
  static FASTPROF_ALWAYS_INLINE char* put_text(char* to, std::string_view text) noexcept {
    const size_t size = text.size();
    const char* const from = text.data();
    if (FASTPROF_LIKELY(size <= 32 && size >= 4)) {
      const auto ends = [&](auto bytes) {
        std::memcpy(to, from, bytes.value);
        std::memcpy(to + size - bytes.value, from + size - bytes.value, bytes.value);
      };
      if (size >= 16)
        ends(std::integral_constant<size_t, 16>{});
      else if (size >= 8)
        ends(std::integral_constant<size_t, 8>{});
      else
        ends(std::integral_constant<size_t, 4>{});
    } else if (size != 0) {  // an empty view may have no address
      std::memcpy(to, from, size);
    }
    return to + size;
  }

  void open_list(std::string_view head) noexcept {
    add(head);
    first_item_ = true;
  }
  FASTPROF_ALWAYS_INLINE void add(std::string_view part) noexcept {
    if (FASTPROF_UNLIKELY(part.size() >= capacity_ - length_) && !grow(part.size())) return;
    std::memcpy(text_ + length_, part.data(), part.size());
    length_ += part.size();
  }
  template <class Number>
  FASTPROF_ALWAYS_INLINE void add_number(Number number) noexcept {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    add({digits, static_cast<size_t>(end - digits)});
  }
  FASTPROF_COLD bool grow(size_t more) noexcept {
    const size_t capacity = (length_ + more) * 2 + 1;
    auto* const text = static_cast<char*>(std::malloc(capacity));
    if (text == nullptr) return false;
    std::memcpy(text, text_, length_);
    if (text_ != first_) std::free(text_);
    text_ = text;
    capacity_ = capacity;
    return true;
  }

  char first_[kInlineBytes];
  char* text_ = first_;
  size_t length_ = 0;
  size_t capacity_ = kInlineBytes;
  bool first_item_ = true;
};

// Returns `name`, followed by ", seq = N" if sequence_nr >= 0, ", op_id = M" if op_id > 0, ", sizes
// = [[2, 3], []]" if shapes is not empty ([] for an input that is not a tensor), and ",
// input_op_ids = [(M,0), (0,-1)]" if input_op_ids is not empty.
inline std::string nvtx_range_text(std::string_view name, int64_t sequence_nr, uint64_t op_id = 0,
                                   const std::vector<std::vector<int64_t>>& shapes = {},
                                   const std::vector<ProducerOp>& input_op_ids = {}) {
  NvtxText text;
  text.add_head(name, sequence_nr, op_id);
  if (!shapes.empty()) {
    text.open_sizes();
    for (const std::vector<int64_t>& shape : shapes) text.add_shape(shape.data(), shape.size());
    text.close_list();
  }
  if (!input_op_ids.empty()) {
    text.open_producers();
    for (const ProducerOp& producer : input_op_ids) text.add_producer(producer);
    text.close_list();
  }
  return std::string(text.view());
}

FASTPROF_NAMESPACE_END
