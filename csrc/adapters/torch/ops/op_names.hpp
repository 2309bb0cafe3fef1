// SPDX-License-Identifier: Apache-2.0
// OpNames: per-thread cache that maps the name of an op to its site.
#pragma once

#include <cstdint>
#include <cstring>

#include "adapters/torch/layout/direct_memory.hpp"
#include "adapters/torch/layout/op_name.hpp"
#include "adapters/torch/layout/op_view.hpp"
#include "adapters/torch/layout/record_function_layout.hpp"
#include "fastprof/recorder/hot_path/name_use.hpp"
#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Cache entry: a name and what the callback needs of its site, in one cache line.
struct alignas(64) OpName {
  static constexpr size_t kOwnText = 32;

  const char* pointer;  // libtorch's name; null for names that it builds anew each time
  const Site* site;     // null: empty entry
  uint32_t mask;        // the site's
  uint32_t length;      // of the name
  uint8_t scope;
  bool collective;     // its ops have metadata (collective_metadata.hpp)
  bool overloaded;     // the site has an overload name
  char own[kOwnText];  // the name if it fits; otherwise the site has it
};
static_assert(sizeof(OpName) == 64, "one cache line");

// Operator names are looked up by address, and the text is compared, because the memory may have
// been reused. Other names, which libtorch builds anew each time, are looked up by text. All zeros:
// empty. Owning thread only.
struct OpNames {
  static constexpr unsigned kPointerBits = 10;
  static constexpr unsigned kTextBits = 8;

  OpName by_pointer[1u << kPointerBits];
  OpName by_text[1u << kTextBits];
  OpName unnamed;  // result for names that are not cached

  // Returns the entry for a name, or (beside = 1) the adjacent one, used on a collision.
  FASTPROF_ALWAYS_INLINE OpName& place_of_pointer(const char* pointer, size_t beside = 0) noexcept {
    const auto word = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer));
    return by_pointer[(word * 0x9E3779B97F4A7C15u) >> (64 - kPointerBits) ^ beside];
  }
  // Hashes two words of the text, because many names differ in one short word: ViewBackward0,
  // MeanBackward0.
  OpName& place_of_text(const char* text, size_t length) noexcept {
    uint64_t last = 0, before = 0;
    if (length >= 8) {
      std::memcpy(&last, text + length - 8, 8);
      std::memcpy(&before, length >= 16 ? text + length - 16 : text, 8);
    } else {
      std::memcpy(&last, text, length);
    }
    const uint64_t mixed = (last ^ (before * 0xD6E8FEB86659FD93u) ^ length) * 0x9E3779B97F4A7C15u;
    return by_text[(mixed ^ (mixed >> 32)) * 0x9E3779B97F4A7C15u >> (64 - kTextBits)];
  }
};

// Compares 8 to 32 bytes by four overlapping words, without branching on the length.
FASTPROF_ALWAYS_INLINE bool same_words(const char* a, const char* b, size_t length) noexcept {
  const auto differs = [a, b](size_t at) {
    uint64_t left, right;
    std::memcpy(&left, a + at, 8);
    std::memcpy(&right, b + at, 8);
    return left ^ right;
  };
  const size_t last = length - 8;
  return (differs(0) | differs(last < 8 ? last : 8) | differs(last < 16 ? last : 16) |
          differs(last)) == 0;
}

// Fast lookup for an op that begins: an operator name of 8 to 32 bytes at its primary entry, the
// common case; null otherwise. Makes no call.
FASTPROF_ALWAYS_INLINE const OpName* find_operator(
    OpNames& names, const RecordFunctionView& record_function) noexcept {
  if (FASTPROF_UNLIKELY(g_op_view.name == 0)) return nullptr;
  DirectMemory memory;
  const NameView name =
      read_name(reinterpret_cast<uintptr_t>(&record_function), g_op_view.name, memory);
  const OpName& met = names.place_of_pointer(name.text);
  const auto scope = field<uint8_t>(&record_function, g_op_view.scope);
  // Combined into one condition, so that there is one branch to predict.
  const uint64_t other =
      (reinterpret_cast<uintptr_t>(met.pointer) ^ reinterpret_cast<uintptr_t>(name.text)) |
      (met.length ^ name.length) | (uint64_t{met.scope} ^ scope);
  if (FASTPROF_UNLIKELY(!name.of_schema || other != 0 || name.length - 8 > OpName::kOwnText - 8))
    return nullptr;
  return FASTPROF_LIKELY(same_words(met.own, name.text, name.length)) ? &met : nullptr;
}

// Looks up any op that begins. Returns null for a user range, whose name is a session name (use
// name_user_range).
const OpName* find_name(OpNames& names, const RecordFunctionView& record_function) noexcept;

// Interns the name of a user range that begins. Valid until the next call on this thread, and while
// `use` lives.
const OpName* name_user_range(NameUse& use, OpNames& names,
                              const RecordFunctionView& record_function) noexcept;

// Call once, before any callback is registered.
void prepare_names(const Functions& functions) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
