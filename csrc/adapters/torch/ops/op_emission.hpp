// SPDX-License-Identifier: Apache-2.0
// Emits PyTorch's ops to a tool as ranges, with the text that PyTorch's own emit_nvtx and emit_itt
// give them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

enum class EmittedText : uint8_t { nvtx = 0, name_only = 1 };

// An emission: push(text) is called at the begin of each op, pop() at its end. shapes: the text
// includes the sizes of inputs; requires an adopted input layout (input_proof.hpp). producers: and
// which ops produced them; requires that try_outputs() has agreed with Python.
struct EmissionRequest {
  EmittedText text = EmittedText::nvtx;
  void (*push)(const char* text) = nullptr;
  void (*pop)() = nullptr;
  bool shapes = false;
  bool producers = false;
};
// Emits ops that begin from now on, on all threads, with at most one emission of each kind. A
// forked child goes on emitting. Raises StateError if ops are not prepared, or if this kind is
// already being emitted. Any thread.
void start_emitting_ops(const EmissionRequest& request);

// Stops an emission; ops in progress are still popped. Does nothing if there is none. Any thread.
void stop_emitting_ops(EmittedText text) noexcept;

// Runs `work` with a callback on this thread that reads the outputs of its ops, with every access
// checked. Returns their names and the addresses of the tensors. Raises StateError if inputs were
// not adopted. `work` may throw. Any thread, one at a time.
using TrialOutputs = std::vector<std::pair<std::string, std::vector<uint64_t>>>;
TrialOutputs try_outputs(const std::function<void()>& work);

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
