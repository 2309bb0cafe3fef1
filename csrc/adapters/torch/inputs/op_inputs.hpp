// SPDX-License-Identifier: Apache-2.0
// Encodes the inputs of an at::RecordFunction as words of payload/op_inputs/op_inputs.hpp.
#pragma once

#include "adapters/torch/inputs/input_reader.hpp"
#include "adapters/torch/layout/op_view.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Maximum number of words for the inputs of one op; the rest is dropped and flagged.
constexpr uint32_t kMaxInputWords = 2000;

// Puts the keyword inputs, a std::unordered_map, after the positional ones.
struct KeywordsPut {
  uint64_t* end;
  uint32_t count;
  bool whole;
};
template <class Source, class Memory>
KeywordsPut put_keywords(Source source, uintptr_t map, Memory& memory, uint64_t* at,
                         uint64_t* end) noexcept {
  InputReader<Source, Memory> reader(source, memory, at, end);
  KeywordsPut put{at, 0, true};
  constexpr uint32_t key = StandardLibrary::kNodeKey;
  constexpr uint32_t value = key + StandardLibrary::kStringBytes;
  auto node = memory.template load<uintptr_t>(map + kMapFirstNode);
  for (auto left = memory.template load<uint64_t>(map + kMapSize); left != 0 && node != 0; --left) {
    if (!reader.put_text(node + key) || !reader.put_keyword(load_value(memory, node + value))) {
      put.whole = false;
      break;
    }
    put.end = reader.position();
    ++put.count;
    node = memory.template load<uintptr_t>(node);
  }
  put.whole &= reader.whole();
  return put;
}

// General encoder: continues at position `at` with the input at `next`, of any kind.
template <class Source, class Memory>
FASTPROF_NOINLINE uint32_t encode_rest(const void* record_function, Source source, Memory& memory,
                                       uintptr_t next, uint64_t* words, uint64_t* at,
                                       uint64_t* end) noexcept {
  const InputLayout& layout = source.layout();
  const auto rf = reinterpret_cast<uintptr_t>(record_function);
  const auto first = memory.template load<uintptr_t>(rf + layout.inputs);
  const auto count = memory.template load<uint64_t>(rf + layout.inputs + 8);
  InputReader<Source, Memory> reader(source, memory, at, end);
  uint64_t stored = (next - first) / sizeof(ValueView);
  const uint64_t most = count < 0xFFFF ? count : 0xFFFF;
  while (stored < most && reader.put(load_value(memory, first + stored * sizeof(ValueView))))
    ++stored;
  KeywordsPut named{reader.position(), 0, true};
  if (stored == count)
    named = put_keywords(source, rf + layout.kwinputs, memory, reader.position(), end);
  const bool whole = stored == count && reader.whole() && named.whole;
  const uint64_t given = count < 0xFFFFFFFF ? count : 0xFFFFFFFF;
  return InputWords::finish(words, named.end, static_cast<uint32_t>(stored), named.count,
                            whole ? stored : given) |
         (whole ? 0 : kInputsLeftOut);
}

// Encodes the contents of a DetailType::op_inputs block for a RecordFunction in its start callback.
// Parameters and result as for EncodeInputs; `capacity` >= 2.
template <class Source, class Memory>
FASTPROF_ALWAYS_INLINE uint32_t encode_inputs(const void* record_function, Source source,
                                              Memory& memory, uint64_t* words,
                                              uint32_t capacity) noexcept {
  const InputLayout& layout = source.layout();
  const auto rf = reinterpret_cast<uintptr_t>(record_function);
  const auto count_of = [&] { return memory.template load<uint64_t>(rf + layout.inputs + 8); };
  const auto keywords_of = [&] {
    return memory.template load<uint64_t>(rf + layout.kwinputs + kMapSize);
  };
  if (FASTPROF_UNLIKELY((count_of() | keywords_of()) == 0)) return 0;
  uint64_t* const end = words + capacity;
  InputWords out = InputWords::amid(words + 1, end);
  auto next = memory.template load<uintptr_t>(rf + layout.inputs);
  const uintptr_t behind = next + count_of() * sizeof(ValueView);
  while (next != behind && put_common(source, memory, load_value(memory, next), out))
    next = put_scalars(source, memory, next + sizeof(ValueView), behind, out);
  // Both are loaded again instead of kept, because the loop needs the registers.
  if (FASTPROF_UNLIKELY(((behind - next) | keywords_of()) != 0))
    return encode_rest(record_function, source, memory, next, words, out.position(), end);
  const auto stored = static_cast<uint32_t>(count_of());
  return InputWords::finish(words, out.position(), stored, 0, stored);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
