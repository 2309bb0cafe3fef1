// SPDX-License-Identifier: Apache-2.0
// Reads libtorch's metadata of a collective operation (group, ranks, message sizes, ...) at the
// begin of its "record_param_comms" op. It is recorded as keyword inputs of that op, with the names
// of PyTorch's traces.
#pragma once

#include <cstdint>
#include <cstring>

#include "adapters/torch/layout/record_function_layout.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Returns whether an op of this name reports the parameters of a collective.
FASTPROF_ALWAYS_INLINE bool is_collective(const char* op_name) noexcept {
  return FASTPROF_UNLIKELY(op_name[0] == 'r') && std::strcmp(op_name, "record_param_comms") == 0;
}

// Looks up libtorch's function; without it no metadata is appended. Call once, before any callback.
void prepare_collective_metadata() noexcept;

// Appends keyword inputs to the contents of a DetailType::op_inputs block that has `used` words (0:
// none yet). Returns the new number of words. Call in the op's start callback.
uint32_t append_collective_metadata(const RecordFunctionView& record_function, uint64_t* words,
                                    uint32_t used, uint32_t capacity) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
