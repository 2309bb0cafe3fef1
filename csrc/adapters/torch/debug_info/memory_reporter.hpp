// SPDX-License-Identifier: Apache-2.0
// Records torch's allocations through a memory reporter in the PROFILER_STATE entry of the debug
// info of profiled threads. libtorch propagates it to the threads that run their work.
//
// A thread has one such entry, which torch.profiler uses too; the first to set it keeps it.
// withdraw_reporter() makes room for torch.profiler; the reporter returns with the first op after
// torch.profiler has stopped.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/torch/debug_info/debug_info_layout.hpp"
#include "fastprof/recorder/state/slot.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Looks up and verifies what memory observation needs; the result is cached. Returns an empty
// string on success, else the reason. A version that is not in the table is rejected before
// libtorch is accessed, unless `given` holds its kinds, read from its headers. Requires a
// successful prepare() (op_observer.hpp). Any thread.
std::string prepare_memory(std::string_view version, const DebugInfoKinds* given = nullptr);

// Returns what prepare_memory() found; null before it succeeded. Any thread.
const DebugInfoFunctions* prepared_debug_info();

// Runs work() while what the calling thread allocates (bytes; negative: frees) is collected instead
// of recorded, at most 16 changes; returns them. Requires prepare_memory(). Lets exceptions pass.
std::vector<int64_t> try_reports(const std::function<void()>& work);

// start_reporting and stop_reporting are counted: memory is reported while the count is not 0. The
// calling thread reports at once, others from their next op. Returns false if another profiler
// holds this thread's entry; reporting then begins with the first op after it has stopped. Raises
// StateError if not prepared. Any thread.
bool start_reporting();
void stop_reporting() noexcept;

// Removes the reporter from the calling thread's chain, and so from the threads that inherited it.
// Returns false if it was not there.
bool withdraw_reporter() noexcept;

// In a forked child: stops reporting on all threads.
void forget_reporters_in_child() noexcept;

// Called at the begin of an op while op_extra::memory is set: the calling thread reports from here
// on.
FASTPROF_HOT void report_from_thread() noexcept;

// Whether the profiler state that torch finds on the calling thread is the reporter.
bool reporter_is_on_thread() noexcept;

// Makes report_from_thread() do nothing on the calling thread, for good: a thread of fastprof's
// own.
void hide_memory_of_this_thread() noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
