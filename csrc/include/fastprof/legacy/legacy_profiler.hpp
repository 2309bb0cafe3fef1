// SPDX-License-Identifier: Apache-2.0
// The exclusive profiler: at most one per thread, fed by RecordFunctions. Independent of sessions;
// both record every range.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/legacy/event_bytes.hpp"
#include "fastprof/legacy/exclusive_profiler.hpp"
#include "fastprof/legacy/profiler_config.hpp"
#include "fastprof/legacy/profiler_state_base.hpp"
#include "fastprof/primitives/callbacks.hpp"
#include "fastprof/primitives/debug_info.hpp"
#include "fastprof/primitives/record_function.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace legacy_detail {

// Looks the profiler up on each call: no-op on threads to which it was not propagated, or no longer
// is.
inline std::unique_ptr<ObserverContext> profiler_start_callback(const RecordFunction& function) {
  if (ProfilerStateBase* profiler = current_profiler_state()) profiler->push_range(function);
  return nullptr;
}

inline void profiler_end_callback(const RecordFunction& function, ObserverContext*) {
  if (ProfilerStateBase* profiler = current_profiler_state()) profiler->pop_range(function);
}

// Returns whether the newest debug info of this thread is a profiler, as disable_profiler requires.
inline bool profiler_is_newest() noexcept {
  if (current_profiler_state() == nullptr) return false;
  DebugInfoNode* front = ThreadLocalDebugInfo::current().detach();
  const DebugInfoChain owner = DebugInfoChain::adopt(front);
  return front != nullptr && front->kind == DebugInfoKind::PROFILER_STATE;
}

}  // namespace legacy_detail

// Enables a profiler on the calling thread and work propagated from it. Raises UnavailableError if
// the state's device stubs are not registered or not enabled, ValueError for the KINETO states (use
// a Session), StateError if this thread already has an exclusive profiler.
inline void enable_profiler(const ProfilerConfig& config) {
  const DeviceStubs* stubs = require_device_stubs(config.state);
  if (config.state >= ProfilerState::KINETO)
    raise<ValueError>(std::string("the exclusive profiler does not run state ") +
                      profiler_state_name(config.state) +
                      "; use a Session, or state CPU, CUDA, NVTX, ITT or PRIVATEUSE1");
  if (running_profiler_state() != nullptr)
    raise<StateError>("Profiler is already enabled on this thread; call disable_profiler first");
  auto profiler = std::make_shared<ExclusiveProfiler>(config, stubs);
  profiler->mark_device_start();
  const DebugInfoChain before = ThreadLocalDebugInfo::current();
  ThreadLocalDebugInfo::push(DebugInfoKind::PROFILER_STATE, profiler);
  RecordFunctionCallback callback(&legacy_detail::profiler_start_callback,
                                  &legacy_detail::profiler_end_callback);
  const bool reads_values = config.report_input_shapes || config.with_flops;
  callback.needs_inputs(reads_values)
      .needs_outputs(config.report_input_shapes && config.state == ProfilerState::NVTX)
      .needs_ids(true);
#if FASTPROF_EXCEPTIONS
  try {
    profiler->set_callback_handle(add_thread_local_callback(callback));
    profiler->mark(kStartProfileMark, false);
  } catch (...) {
    if (profiler->callback_handle() != kInvalidCallbackHandle)
      remove_callback(profiler->callback_handle());
    ThreadLocalDebugInfo::force_current(before);
    throw;
  }
#else
  profiler->set_callback_handle(add_thread_local_callback(callback));
  profiler->mark(kStartProfileMark, false);
#endif
}

// Disables the profiler of the calling thread, which must be the one that called enable_profiler.
// Returns the events: one list per thread by ascending thread id, then the remote lists. The result
// is empty without `consolidate`, in the NVTX and ITT states, and in a child forked since the
// enable. Without `cleanup_tls_state`, the profiler continues recording, into empty lists; a thread
// that the profiler was propagated to collects events this way. Raises StateError if no profiler is
// enabled here, or if newer debug info was pushed.
inline LegacyEventLists disable_profiler(ProfilerDisableOptions options = {}) {
  if (current_profiler_state() == nullptr)
    raise<StateError>(
        "Can't disable profiler when it's not running; call enable_profiler on this thread first");
  // Both raise StateError if debug info of another kind is newer.
  const std::shared_ptr<DebugInfoBase> info =
      options.cleanup_tls_state ? ThreadLocalDebugInfo::pop(DebugInfoKind::PROFILER_STATE)
                                : ThreadLocalDebugInfo::peek(DebugInfoKind::PROFILER_STATE);
  ProfilerStateBase* profiler = info->profiler_state();
  if (profiler->inherited()) return {};  // the fork has already dropped the callback
  if (options.cleanup_tls_state && profiler->callback_handle() != kInvalidCallbackHandle)
    remove_callback(profiler->callback_handle());
  if (!options.consolidate || profiler->config().passes_on()) return {};
  profiler->mark(kStopProfileMark, false);
  return profiler->consolidate();
}

// Records a mark on the calling thread; in the device states with a device event, unless
// include_device is false. No-op if this thread has no profiler.
inline void mark(const std::string& name, bool include_device = true) {
  if (ProfilerStateBase* profiler = running_profiler_state())
    profiler->mark(name.c_str(), include_device);
}

// Adds one list of events of another process; lists of separate calls stay separate. Raises
// StateError if this thread has no profiler. Threads that share the profiler may call it
// concurrently.
inline void add_remote_events(LegacyEventList events) {
  ProfilerStateBase* profiler = running_profiler_state();
  if (profiler == nullptr)
    raise<StateError>("Profiler must be enabled. Call enable_profiler on this thread first");
  LegacyEventLists lists;
  lists.push_back(std::move(events));
  profiler->add_remote_events(std::move(lists));
}

// As above, for the output of encode_event_lists, whose lists stay separate. Raises FormatError,
// naming the byte offset, if it is malformed; nothing is added then.
inline void add_remote_events(std::string_view bytes) {
  ProfilerStateBase* profiler = running_profiler_state();
  if (profiler == nullptr)
    raise<StateError>("Profiler must be enabled. Call enable_profiler on this thread first");
  profiler->add_remote_events(decode_event_lists(bytes));
}

// Returns whether the calling thread has an exclusive profiler in a state other than Disabled.
inline bool profiler_enabled() noexcept {
  const ProfilerStateBase* profiler = running_profiler_state();
  return profiler != nullptr && !profiler->config().disabled();
}

// Returns the kind of the calling thread's exclusive profiler. Ignores sessions.
inline ActiveProfilerType profiler_type() noexcept {
  const ProfilerStateBase* profiler = running_profiler_state();
  return profiler != nullptr ? active_profiler_type(profiler->config().state)
                             : ActiveProfilerType::NONE;
}

// Returns the configuration of the calling thread's exclusive profiler. Raises StateError if there
// is none.
inline ProfilerConfig profiler_config() {
  const ProfilerStateBase* profiler = running_profiler_state();
  if (profiler == nullptr)
    raise<StateError>("Profiler must be enabled. Call enable_profiler on this thread first");
  return profiler->config();
}

FASTPROF_NAMESPACE_END
