// SPDX-License-Identifier: Apache-2.0
// Reports PyTorch's ops as intervals with identifiers, which may end on another thread than they
// began on, for tools that pair begin and end by a number (os_signpost). op_emission.hpp is for
// tools whose ranges nest by thread.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// begin: called at an op's begin with its name; returns the number that end receives, 0: no end is
// reported. Both may be called on any thread, also after stop_op_intervals(), for ops in progress.
struct OpIntervals {
  uint64_t (*begin)(const char* name) = nullptr;
  void (*end)(uint64_t id) = nullptr;
};

// Reports ops that begin from now on, on all threads; a forked child goes on. Raises StateError if
// ops are not prepared, or if they are reported already. Any thread.
void start_op_intervals(const OpIntervals& intervals);

// Ends it. No effect if ops are not reported. Any thread.
void stop_op_intervals() noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
