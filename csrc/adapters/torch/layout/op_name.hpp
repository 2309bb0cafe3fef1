// SPDX-License-Identifier: Apache-2.0
// Reads the name of an op from its at::RecordFunction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "adapters/torch/layout/record_function_layout.hpp"
#include "adapters/torch/layout/standard_library.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// A NUL-terminated name; `length` excludes the NUL.
struct NameView {
  const char* text;
  size_t length;
  bool of_schema;  // name of an operator (may have overloads); else a string passed to libtorch
};

// Reads the name at offset `name` (Layout::name, not 0). The RecordFunction must be alive; the text
// lives as long as it. Library: a layout of standard_library.hpp.
template <class Library = StandardLibrary, class Memory>
FASTPROF_ALWAYS_INLINE NameView read_name(uintptr_t record_function, uint32_t name,
                                          Memory& memory) noexcept {
  const uintptr_t at = record_function + name;
  // A variant stores the index after its largest alternative, here a std::string.
  const bool of_schema = memory.template load<uint8_t>(at + Library::kStringBytes) != 0;
  const uintptr_t string = of_schema ? memory.template load<uintptr_t>(at) : at;
  const TextBounds bounds = Library::load_text(memory, string);
  return {reinterpret_cast<const char*>(bounds.text), bounds.length, of_schema};
}

// As read_name, with checked access, for verification. Empty if the layout leads to unmapped memory
// or not to a name.
std::optional<std::string> read_name_checked(const RecordFunctionView& record_function,
                                             uint32_t name) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
