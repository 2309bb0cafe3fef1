// SPDX-License-Identifier: Apache-2.0
// The name of an op, read where at::RecordFunction has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "adapters/torch/record_function_layout.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Ends with a zero that `length` does not count.
struct NameView {
  const char* text;
  size_t length;
  bool of_schema;  // of an operator, which may have overloads; else a text that libtorch was given
};

// By Layout::name, which is not 0. Whoever has the RecordFunction alive; the text lives as long.
template <class Memory>
FASTPROF_ALWAYS_INLINE NameView read_name(uintptr_t record_function, uint32_t name,
                                          Memory& memory) noexcept {
  const uintptr_t at = record_function + name;
  // libstdc++'s variant has the number of its alternative behind the largest, a std::string of 32
  // bytes; that begins with address and length.
  const bool of_schema = memory.template load<uint8_t>(at + 32) != 0;
  const uintptr_t text = of_schema ? memory.template load<uintptr_t>(at) : at;
  return {reinterpret_cast<const char*>(memory.template load<uintptr_t>(text)),
          memory.template load<size_t>(text + 8), of_schema};
}

// The same for proofs: nothing where the layout leads to memory that is not there, or to no name.
std::optional<std::string> read_name_checked(const RecordFunctionView& record_function,
                                             uint32_t name) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
