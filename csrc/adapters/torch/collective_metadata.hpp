// SPDX-License-Identifier: Apache-2.0
// What libtorch knows of a collective (group, ranks, message sizes, ...) while its
// "record_param_comms" op begins: keyword inputs of that op, by the names that PyTorch's traces
// use.
#pragma once

#include <cstdint>
#include <cstring>

#include "adapters/torch/record_function_layout.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

FASTPROF_ALWAYS_INLINE bool is_collective(const char* op_name) noexcept {
  return FASTPROF_UNLIKELY(op_name[0] == 'r') && std::strcmp(op_name, "record_param_comms") == 0;
}

// Finds libtorch's own function; without it nothing is appended. Once, before any callback.
void prepare_collective_metadata() noexcept;

// Appends keyword inputs to the contents of a DetailType::shapes block, of which `used` words are
// there (0: none yet); returns the words used then. In the op's start callback.
uint32_t append_collective_metadata(const RecordFunctionView& record_function, uint64_t* words,
                                    uint32_t used, uint32_t capacity) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
