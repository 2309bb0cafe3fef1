// SPDX-License-Identifier: Apache-2.0
// Sources: where input readers get the layout of libtorch's objects from.
#pragma once

#include <cstddef>
#include <cstdint>

#include "adapters/torch/inputs/input_layout.hpp"
#include "adapters/torch/layout/op_view.hpp"
#include "fastprof/payload/op_inputs/input_words.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Loads an IValue through a Memory (input_reader.hpp). Each part is loaded with the width that
// libtorch stores it with: a wider load of a recent store would stall (failed store forwarding).
// Tags fit in one byte.
template <class Memory>
FASTPROF_ALWAYS_INLINE ValueView load_value(Memory& memory, uintptr_t address) noexcept {
  const auto payload = memory.template load<uint64_t>(address + offsetof(ValueView, payload));
  const auto tag = memory.template load<uint32_t>(address + offsetof(ValueView, tag));
  return {payload, static_cast<uint8_t>(tag), 0};
}

// Lookup table by IValue::Tag for values stored in the IValue itself: kind, number of words and
// payload bits. Replaces a branch per kind, which would be mispredicted because inputs come in any
// order. words() is 0 for other kinds.
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
  static constexpr uint32_t kTags = 256;  // tags are bytes in layouts
  constexpr void set(uint32_t tag, InputKind kind, uint64_t value_bits) noexcept {
    value_bits_[tag] = value_bits;
    kinds_[tag] = kind;
    words_[tag] = 2;
  }

  uint64_t value_bits_[kTags]{};  // significant bits of the payload
  InputKind kinds_[kTags]{};      // `other` unless set
  uint8_t words_[kTags]{};        // 0: not stored in the IValue
};

// A Source has layout(), codes() and undefined(): the address of the undefined tensor, which has no
// sizes. It is small and passed by value. kStorages: it also has storage(), the offset of a
// tensor's storage (put_storage() of common_input.hpp); 0: storages are not read. This one is used
// to verify a layout.
class CandidateSource {
 public:
  static constexpr bool kStorages = true;
  CandidateSource(const InputLayout& layout, const ScalarCodes& codes, uintptr_t undefined,
                  uint32_t storage) noexcept
      : layout_(&layout), codes_(&codes), undefined_(undefined), storage_(storage) {}
  const InputLayout& layout() const noexcept { return *layout_; }
  const ScalarCodes& codes() const noexcept { return *codes_; }
  uintptr_t undefined() const noexcept { return undefined_; }
  uint32_t storage() const noexcept { return storage_; }

 private:
  const InputLayout* layout_;
  const ScalarCodes* codes_;
  uintptr_t undefined_;
  uint32_t storage_;
};

// The layout of the newest table entry, after verification. Its numbers are compile-time constants.
struct BuiltInSource {
  static constexpr bool kStorages = false;
  static constexpr const InputLayout& layout() noexcept { return kInputLayout_2_13; }
  static const ScalarCodes& codes() noexcept {
    static constexpr ScalarCodes known(kInputLayout_2_13);
    return known;
  }
  static uintptr_t undefined() noexcept { return g_op_view.undefined_tensor; }
};

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
