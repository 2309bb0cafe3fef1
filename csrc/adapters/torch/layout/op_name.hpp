// SPDX-License-Identifier: Apache-2.0
// Reads the name of an op from its at::RecordFunction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "adapters/torch/layout/record_function_layout.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// A NUL-terminated name; `length` excludes the NUL.
struct NameView {
  const char* text;
  size_t length;
  bool of_schema;  // name of an operator (may have overloads); else a string passed to libtorch
};

// Reads the name at offset `name` (Layout::name, not 0). The RecordFunction must be alive; the text
// lives as long as it.
template <class Memory>
FASTPROF_ALWAYS_INLINE NameView read_name(uintptr_t record_function, uint32_t name,
                                          Memory& memory) noexcept {
  const uintptr_t at = record_function + name;
  // libstdc++'s variant stores the index after its largest alternative, here a std::string of 32
  // bytes, which begins with address and length.
  const bool of_schema = memory.template load<uint8_t>(at + 32) != 0;
  const uintptr_t text = of_schema ? memory.template load<uintptr_t>(at) : at;
  return {reinterpret_cast<const char*>(memory.template load<uintptr_t>(text)),
          memory.template load<size_t>(text + 8), of_schema};
}

// As read_name, with checked access, for verification. Empty if the layout leads to unmapped memory
// or not to a name.
std::optional<std::string> read_name_checked(const RecordFunctionView& record_function,
                                             uint32_t name) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
