// SPDX-License-Identifier: Apache-2.0
// From the inputs of an at::RecordFunction to the words of range_detail/op_inputs.hpp.
#pragma once

#include "adapters/torch/input_reader.hpp"
#include "adapters/torch/op_view.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Words that the inputs of one op may take; what does not fit is left out and told.
constexpr uint32_t kMaxInputWords = 1000;

// The keyword inputs behind the positional ones, at `at`. libstdc++'s unordered_map: its first node
// behind 16 bytes, their number behind 24; a node: next, text, value.
struct KeywordsPut {
  uint64_t* end;
  uint32_t count;
  bool whole;
};
template <class Source, class Memory>
FASTPROF_COLD KeywordsPut put_keywords(Source source, uintptr_t map, Memory& memory, uint64_t* at,
                                       uint64_t* end) noexcept {
  InputReader<Source, Memory> reader(source, memory, InputWords::amid(at, end));
  KeywordsPut put{at, 0, true};
  auto node = memory.template load<uintptr_t>(map + 16);
  for (auto left = memory.template load<uint64_t>(map + 24); left != 0 && node != 0; --left) {
    if (!reader.put_text(node + 8) || !reader.put_keyword(load_value(memory, node + 8 + 32))) {
      put.whole = false;
      break;
    }
    put.end = reader.out().position();
    ++put.count;
    node = memory.template load<uintptr_t>(node);
  }
  put.whole &= reader.whole();
  return put;
}

// The contents of a DetailType::shapes block for a RecordFunction in its start callback: as
// EncodeInputs, `capacity` >= 2.
template <class Source, class Memory>
FASTPROF_ALWAYS_INLINE uint32_t encode_inputs(Source source, const void* record_function,
                                              Memory& memory, uint64_t* words,
                                              uint32_t capacity) noexcept {
  const InputLayout& layout = source.layout();
  const auto rf = reinterpret_cast<uintptr_t>(record_function);
  const auto inputs = memory.template load<uintptr_t>(rf + layout.inputs);
  const auto count = memory.template load<uint64_t>(rf + layout.inputs + 8);
  const auto keywords = memory.template load<uint64_t>(rf + layout.kwinputs + 24);
  if (FASTPROF_UNLIKELY((count | keywords) == 0)) return 0;
  InputReader<Source, Memory> reader(source, memory, InputWords(words, capacity));
  uint32_t stored = 0;
  const uint64_t most = count < 0xFFFF ? count : 0xFFFF;
  for (; stored < most; ++stored) {
    const ValueView value = load_value(memory, inputs + stored * sizeof(ValueView));
    if (FASTPROF_UNLIKELY(!reader.put(value))) break;
  }
  uint32_t named = 0;
  bool whole = (stored == count) & reader.whole();
  if (FASTPROF_UNLIKELY(keywords != 0) && stored == count) {
    const KeywordsPut put = put_keywords(source, rf + layout.kwinputs, memory,
                                         reader.out().position(), reader.out().end());
    reader.out().back_to(put.end);
    named = put.count;
    whole &= put.whole;
  }
  if (FASTPROF_LIKELY(whole)) return reader.out().finish(stored, named, stored);
  return reader.out().finish(stored, named, count < 0xFFFFFFFF ? count : 0xFFFFFFFF) |
         kInputsLeftOut;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
