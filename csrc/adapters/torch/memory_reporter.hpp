// SPDX-License-Identifier: Apache-2.0
// torch's allocations in the recorder: a memory reporter in the PROFILER_STATE slot of the threads
// that a profile covers. libtorch hands it on to the threads that it gives work to.
//
// A thread has one such slot, which torch.profiler wants too. Who comes first has it:
// torch.profiler is let in by withdraw_reporter(), and ours comes back with the first op after it
// has gone.
#pragma once

#include <string>
#include <string_view>

#include "adapters/torch/debug_info_layout.hpp"
#include "fastprof/recorder/slot.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Finds and proves what is needed; the answer is kept. Empty when memory can be observed, else the
// reason. A version that is not in the table is refused before anything of libtorch is looked at,
// unless its kinds are `given`, read from its headers. Only after prepare() of op_observer.hpp has
// succeeded. Any thread.
std::string prepare_memory(std::string_view version, const DebugInfoKinds* given = nullptr);

// What prepare_memory() has found; null before it has succeeded. Any thread.
const DebugInfoFunctions* prepared_debug_info();

// Counted: threads report from the first until the last is stopped. The calling thread does at
// once, others with their next op. False when another profiler has this thread's slot: ours follows
// with the first op after that one has gone. StateError when not prepared. Any thread.
bool start_reporting();
void stop_reporting() noexcept;

// Takes the reporter out of the calling thread's slot, and so off the threads that had it from
// there. False when it is not there.
bool withdraw_reporter() noexcept;

// In a forked child: none reports.
void forget_reporters_in_child() noexcept;

// At the begin of an op while op_extra::memory is wanted: the calling thread reports from here on.
FASTPROF_HOT void report_from_thread() noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
