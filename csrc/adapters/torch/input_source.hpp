// SPDX-License-Identifier: Apache-2.0
// What is known of libtorch when inputs of ops are read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "adapters/torch/input_layout.hpp"
#include "adapters/torch/op_view.hpp"
#include "fastprof/range_detail/input_words.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// The value at `address`, through a Memory (input_reader.hpp), each part as libtorch stores it: a
// load of more waits until what was just stored has left the processor. Tags are small.
template <class Memory>
FASTPROF_ALWAYS_INLINE ValueView load_value(Memory& memory, uintptr_t address) noexcept {
  const auto payload = memory.template load<uint64_t>(address + offsetof(ValueView, payload));
  const auto tag = memory.template load<uint32_t>(address + offsetof(ValueView, tag));
  return {payload, static_cast<uint8_t>(tag), 0};
}

// By IValue::Tag, how a value is put that needs no look elsewhere: its kind, the words it takes and
// what of its payload it is. Inputs come in any order, so a branch for each kind would be a guess
// that fails. words() is 0 for the other kinds.
class ScalarCodes {
 public:
  constexpr ScalarCodes() noexcept = default;
  constexpr explicit ScalarCodes(const InputLayout& layout) noexcept {
    for (uint8_t& words : words_) words = 1;
    set(layout.tag_integer, InputKind::integer, ~uint64_t{0});
    set(layout.tag_boolean, InputKind::boolean, 0xFF);
    set(layout.tag_real, InputKind::real, ~uint64_t{0});
    for (const uint8_t tag : {layout.tag_tensor, layout.tag_list, layout.tag_complex})
      words_[tag] = 0;
  }
  FASTPROF_ALWAYS_INLINE uint64_t value_bits(uint32_t tag) const noexcept {
    return value_bits_[tag];
  }
  FASTPROF_ALWAYS_INLINE InputKind kind(uint32_t tag) const noexcept { return kinds_[tag]; }
  FASTPROF_ALWAYS_INLINE uint32_t words(uint32_t tag) const noexcept { return words_[tag]; }

 private:
  static constexpr uint32_t kTags = 256;  // layouts have them as bytes
  constexpr void set(uint32_t tag, InputKind kind, uint64_t value_bits) noexcept {
    value_bits_[tag] = value_bits;
    kinds_[tag] = kind;
    words_[tag] = 2;
  }

  uint64_t value_bits_[kTags]{};  // of the payload, that count
  InputKind kinds_[kTags]{};      // `other` where nothing is set
  uint8_t words_[kTags]{};        // 0: kept elsewhere
};

// Of libtorch. A Source has a layout(), its codes(), and undefined(): the address of the undefined
// tensor, which has no sizes. It is small and passed by value. This is what it takes to try a
// layout.
class TriedSource {
 public:
  TriedSource(const InputLayout& layout, const ScalarCodes& codes, uintptr_t undefined) noexcept
      : layout_(&layout), codes_(&codes), undefined_(undefined) {}
  const InputLayout& layout() const noexcept { return *layout_; }
  const ScalarCodes& codes() const noexcept { return *codes_; }
  uintptr_t undefined() const noexcept { return undefined_; }

 private:
  const InputLayout* layout_;
  const ScalarCodes* codes_;
  uintptr_t undefined_;
};

// Of the layout in the table, once it is trusted: the compiler knows its numbers.
struct KnownSource {
  static constexpr const InputLayout& layout() noexcept { return kInputLayout_2_13; }
  static const ScalarCodes& codes() noexcept {
    static constexpr ScalarCodes known(kInputLayout_2_13);
    return known;
  }
  static uintptr_t undefined() noexcept { return g_op_view.undefined_tensor; }
};

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
