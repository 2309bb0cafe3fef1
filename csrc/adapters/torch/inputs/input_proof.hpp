// SPDX-License-Identifier: Apache-2.0
// Verifies an InputLayout before it is used: reads the inputs of known ops with every memory access
// checked, so that a wrong layout cannot fault, and compares them with what the ops were given
// (python/fastprof/adapters/torch/inputs.py). Afterwards inputs are read without checks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "adapters/torch/inputs/input_layout.hpp"
#include "adapters/torch/layout/op_view.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Result for one op. `words`: contents of a DetailType::op_inputs block; empty if something could
// not be read. `texts`: its positional string inputs, which such a block does not contain.
struct TriedOp {
  std::string name;
  std::string overload;
  std::vector<uint64_t> words;
  std::vector<std::string> texts;
};

// Runs `work` with a thread-local callback that reads inputs by `layout`, with checks; also
// storages of tensors, if `storage` is not 0 (adopt_storage_offset). Returns an empty list and sets
// `*why` if libtorch's own objects contradict the layout. Raises StateError if ops are not prepared
// (op_observer.hpp) or another thread is running a trial. `work` may throw. Any thread, one at a
// time.
std::vector<TriedOp> try_inputs(const InputLayout& layout, uint32_t storage,
                                const std::function<void()>& work, std::string* why);

// Enables unchecked reads by this layout; call only after try_inputs has verified it. The first
// layout adopted stays. Any thread.
void adopt_input_layout(const InputLayout& layout);

// Sets the offset of TensorImpl::storage_, which is also that of StorageImpl::data_ptr_; 0:
// unknown, storages are not recorded. Call with another value only after try_inputs has verified
// it. Any thread.
void adopt_storage_offset(uint32_t offset) noexcept;

// Returns the unchecked encoder; null before adopt_input_layout().
EncodeInputs trusted_encoder() noexcept;

// Returns the unchecked encoder that includes storages of tensors while OpView::wants includes
// memory; null before adopt_input_layout().
EncodeInputs encoder_by_wants() noexcept;

// Returns the adopted layout; empty before adopt_input_layout().
std::optional<InputLayout> adopted_input_layout() noexcept;

// Returns whether the adopted layout equals that of BuiltInSource.
bool trusted_source_is_known() noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
