// SPDX-License-Identifier: Apache-2.0
// Every at::RecordFunction of the process as a range in the recorder, while the observer is on. One
// a process.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "adapters/torch/record_function_layout.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Finds libtorch in the process, looks `version` up and runs the self-test; the answer is kept.
// Empty when ops can be observed, else the reason, which says what to do. An unknown version is
// refused before anything of libtorch is looked at, unless its layout is `given` (read from its
// headers: fastprof.adapters.torch.headers). Any thread; must not hold a lock that
// libtorch's threads wait for (the GIL is none of them).
std::string prepare(std::string_view version, bool cxx11_abi, const Layout* given = nullptr);

// Counted: the callback is registered with the first and removed with the last. What begins between
// is recorded by the sessions that then run; ops in progress end whenever they end, on whatever
// thread. inputs: with their inputs (range_detail/op_inputs.hpp), as long as one of those who asked
// for them has not stopped; give stop_observing the same. StateError when not prepared, or inputs
// are not trusted (input_proof.hpp). Any thread; libtorch's own functions serialise with threads
// that begin ops.
void start_observing(bool inputs);
void stop_observing(bool inputs) noexcept;

// In a forked child: no observer is on.
void forget_observers_in_child() noexcept;

// What prepare() has found; none before it has succeeded. Any thread.
struct Prepared {
  const Functions* functions;
  Layout layout;
};
std::optional<Prepared> prepared();

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
