// SPDX-License-Identifier: Apache-2.0
// How an InputLayout is tried before it is trusted: known ops are read through it with every access
// checked, so that a wrong layout reads nothing that is not there, and what was read is compared
// with what the ops were given (python/fastprof/adapters/torch/inputs.py). Then inputs are read
// without checks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "adapters/torch/input_layout.hpp"
#include "adapters/torch/op_view.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// One op of the tried work. `words`: a DetailType::shapes block's contents; empty when something
// could not be read. `texts`: what it was given by position as text, which a block does not show.
struct TriedOp {
  std::string name;
  std::string overload;
  std::vector<uint64_t> words;
  std::vector<std::string> texts;
};

// Runs `work` with a callback on the calling thread that reads inputs by `layout`, checked. Empty
// and `*why` when libtorch's own objects do not agree with the layout. StateError when ops
// are not prepared (op_observer.hpp). `work` may throw. Any thread, one at a time.
std::vector<TriedOp> try_inputs(const InputLayout& layout, const std::function<void()>& work,
                                std::string* why);

// From now on inputs of ops may be read by the layout, without checks: after try_inputs has shown
// that it holds. The first that is trusted stays. Any thread.
void trust_inputs(const InputLayout& layout);

// What reads them so; null until trust_inputs().
EncodeInputs trusted_encoder() noexcept;

// Whether KnownSource says the same.
bool trusted_source_is_known() noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
