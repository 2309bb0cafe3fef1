// SPDX-License-Identifier: Apache-2.0
// Checked reading of names: see op_name.hpp.
#include "adapters/torch/layout/op_name.hpp"

#include "adapters/torch/layout/checked_memory.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

std::optional<std::string> read_name_checked(const RecordFunctionView& record_function,
                                             uint32_t name) noexcept {
  CheckedMemory memory;
  const NameView read = read_name(reinterpret_cast<uintptr_t>(&record_function), name, memory);
  CheckedMemory::Scratch<char, 256> room;  // names of known ops are shorter
  if (memory.failed() || read.length >= sizeof room.copies) return std::nullopt;
  const char* text = room.view(memory, reinterpret_cast<uintptr_t>(read.text), read.length + 1);
  if (text == nullptr || text[read.length] != '\0') return std::nullopt;
  try {
    return std::string(text, read.length);
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
