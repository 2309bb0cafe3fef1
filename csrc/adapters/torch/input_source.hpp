// SPDX-License-Identifier: Apache-2.0
// What is known of libtorch when inputs of ops are read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "adapters/torch/input_layout.hpp"
#include "fastprof/range_detail/input_words.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// The value at `address`, through a Memory (input_reader.hpp), each part as libtorch stores it: a
// load of more waits until what was just stored has left the processor.
template <class Memory>
FASTPROF_ALWAYS_INLINE ValueView load_value(Memory& memory, uintptr_t address) noexcept {
  const auto payload = memory.template load<uint64_t>(address + offsetof(ValueView, payload));
  const auto tag = memory.template load<uint32_t>(address + offsetof(ValueView, tag));
  return {payload, tag, 0};
}

// By IValue::Tag, how a value is put that needs no look elsewhere. Inputs come in any order, so a
// branch for each kind would be a guess that fails; ScalarCode::words is 0 for the other kinds.
struct ScalarCodes {
  static constexpr uint32_t kTags = 256;  // layouts have them as bytes
  ScalarCode of[kTags];
};
constexpr ScalarCodes scalar_codes(const InputLayout& layout) noexcept {
  ScalarCodes codes{};
  for (ScalarCode& code : codes.of) code = kPutOther;
  codes.of[layout.tag_integer] = kPutInteger;
  codes.of[layout.tag_boolean] = kPutBoolean;
  codes.of[layout.tag_real] = kPutReal;
  for (const uint8_t tag : {layout.tag_tensor, layout.tag_list, layout.tag_complex})
    codes.of[tag] = {0, 0, 0};
  return codes;
}

// Of libtorch. A Source has a layout(), its codes(), and undefined(): the address of the undefined
// tensor, which has no sizes. It is small and passed by value; here what it takes to try a layout.
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

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
