// SPDX-License-Identifier: Apache-2.0
// Op observer: records every at::RecordFunction of the process as a range while it is on.
// Process-wide.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "adapters/torch/layout/record_function_layout.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Finds libtorch in the process, looks up the layout of `version` and runs the self-test; the
// result is cached. Returns an empty string if ops can be observed, else the reason and a remedy.
// An unknown version is rejected before libtorch is accessed, unless `given` is its layout (read
// from its headers: fastprof.adapters.torch.headers). Any thread; the caller must not hold a lock
// that libtorch's threads wait for (the GIL is not one).
std::string prepare(std::string_view version, bool cxx11_abi, const Layout* given = nullptr);

// start and stop are counted: the callback is registered by the first start and removed by the last
// stop. Ops that begin in between are recorded by the sessions then running; ops in progress may
// end later, on any thread. inputs: record inputs (payload/op_inputs/op_inputs.hpp) until the last
// caller with inputs stops; pass the same value to stop_observing. Raises StateError if not
// prepared, or if inputs are not verified (input_proof.hpp). Any thread; libtorch's functions
// synchronise with threads that begin ops.
void start_observing(bool inputs);
void stop_observing(bool inputs) noexcept;

// In a forked child: turns the observer off.
void forget_observers_in_child() noexcept;

// Returns what prepare() found; empty before it succeeded. Any thread.
struct Prepared {
  const Functions* functions;
  Layout layout;
};
std::optional<Prepared> prepared();

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
