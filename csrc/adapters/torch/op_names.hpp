// SPDX-License-Identifier: Apache-2.0
// From the name that libtorch gives an op to its site: what a thread has met before.
#pragma once

#include <cstdint>
#include <cstring>

#include "adapters/torch/direct_memory.hpp"
#include "adapters/torch/op_name.hpp"
#include "adapters/torch/op_view.hpp"
#include "adapters/torch/record_function_layout.hpp"
#include "fastprof/recorder/name_use.hpp"
#include "fastprof/recorder/site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// A name met before, with all that the callback needs of its site, in one cache line.
struct alignas(64) OpName {
  static constexpr size_t kOwnText = 32;

  const char* pointer;  // to the name that libtorch gave; of a text that it makes anew: null
  const Site* site;     // null: the place is empty
  uint32_t mask;        // the site's
  uint32_t length;      // of the name
  uint8_t scope;
  bool collective;     // its ops have metadata (collective_metadata.hpp)
  bool overloaded;     // the site has the name of an overload
  char own[kOwnText];  // the name where it is not longer; else the site has it
};
static_assert(sizeof(OpName) == 64, "one cache line");

// Names of operators by their address; the text is compared, for the memory may hold another name
// by now. Other names, which libtorch makes anew each time, by their text. All zeros: none met.
// Owning thread.
struct OpNames {
  static constexpr unsigned kPointerBits = 10;
  static constexpr unsigned kTextBits = 8;

  OpName by_pointer[1u << kPointerBits];
  OpName by_text[1u << kTextBits];
  OpName unnamed;  // the answer for what is not kept

  // The place where a name is looked for, and the one beside it, for another name that has that.
  FASTPROF_ALWAYS_INLINE OpName& place_of_pointer(const char* pointer, size_t beside = 0) noexcept {
    const auto word = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer));
    return by_pointer[(word * 0x9E3779B97F4A7C15u) >> (64 - kPointerBits) ^ beside];
  }
  // Many names differ in one short word: ViewBackward0, MeanBackward0.
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

// Of 8 to 32 bytes, without a branch for each length: four words that overlap.
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

// Of an op that begins: where its name is that of an operator, of 8 to 32 bytes, and has its place,
// as most have; null for others. No call.
FASTPROF_ALWAYS_INLINE const OpName* find_operator(
    OpNames& names, const RecordFunctionView& record_function) noexcept {
  if (FASTPROF_UNLIKELY(g_op_view.name == 0)) return nullptr;
  DirectMemory memory;
  const NameView name =
      read_name(reinterpret_cast<uintptr_t>(&record_function), g_op_view.name, memory);
  const OpName& met = names.place_of_pointer(name.text);
  const auto scope = field<uint8_t>(&record_function, g_op_view.scope);
  // All at once, for it is one guess of the processor's then.
  const uint64_t other =
      (reinterpret_cast<uintptr_t>(met.pointer) ^ reinterpret_cast<uintptr_t>(name.text)) |
      (met.length ^ name.length) | (uint64_t{met.scope} ^ scope);
  if (FASTPROF_UNLIKELY(!name.of_schema || other != 0 || name.length - 8 > OpName::kOwnText - 8))
    return nullptr;
  return FASTPROF_LIKELY(same_words(met.own, name.text, name.length)) ? &met : nullptr;
}

// Of any op that begins; null for a user's range, whose name is a session name (name_user_range).
const OpName* find_name(OpNames& names, const RecordFunctionView& record_function) noexcept;

// Of a user's range that begins: valid until the next call on this thread, and while `use` lives.
const OpName* name_user_range(NameUse& use, OpNames& names,
                              const RecordFunctionView& record_function) noexcept;

// Once, before any callback exists.
void prepare_names(const Functions& functions) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
