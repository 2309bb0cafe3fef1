// SPDX-License-Identifier: Apache-2.0
// The exclusive profiler: at most one per thread, fed by RecordFunctions. It knows nothing of
// sessions and they nothing of it; both see every range.
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

// The profiler is looked up each time: where it was not propagated, or is no longer, nothing
// happens.
inline std::unique_ptr<ObserverContext> profiler_start_callback(const RecordFunction& function) {
  if (ProfilerStateBase* profiler = current_profiler_state()) profiler->push_range(function);
  return nullptr;
}

inline void profiler_end_callback(const RecordFunction& function, ObserverContext*) {
  if (ProfilerStateBase* profiler = current_profiler_state()) profiler->pop_range(function);
}

// Whether the newest debug info of this thread is a profiler, so that disable_profiler can take it
// off.
inline bool profiler_is_newest() noexcept {
  if (current_profiler_state() == nullptr) return false;
  DebugInfoNode* front = ThreadLocalDebugInfo::current().detach();
  const DebugInfoChain owner = DebugInfoChain::adopt(front);
  return front != nullptr && front->kind == DebugInfoKind::PROFILER_STATE;
}

}  // namespace legacy_detail

// Puts a profiler on the calling thread and on the work that is propagated from it.
// UnavailableError naming what is missing when the state's device stubs are not registered or not
// enabled; ValueError for the KINETO states, which sessions provide; StateError when this thread
// has such a profiler already.
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

// Ends what enable_profiler began, on the thread it was called on, and returns the events: one list
// per thread by ascending thread id, then the remote ones. Empty without consolidate, in the states
// that pass events on, and in a child forked meanwhile. Without cleanup_tls_state the profiler
// stays as it is and goes on recording into empty lists: how a thread that a profiler was
// propagated to collects what there is. StateError when no profiler is running here, or when debug
// info was pushed on top of it.
inline LegacyEventLists disable_profiler(ProfilerDisableOptions options = {}) {
  if (current_profiler_state() == nullptr)
    raise<StateError>(
        "Can't disable profiler when it's not running; call enable_profiler on this thread first");
  // Both raise when debug info of another kind is newest.
  const std::shared_ptr<DebugInfoBase> info =
      options.cleanup_tls_state ? ThreadLocalDebugInfo::pop(DebugInfoKind::PROFILER_STATE)
                                : ThreadLocalDebugInfo::peek(DebugInfoKind::PROFILER_STATE);
  ProfilerStateBase* profiler = info->profiler_state();
  if (profiler->inherited()) return {};  // fork dropped the callback already
  if (options.cleanup_tls_state && profiler->callback_handle() != kInvalidCallbackHandle)
    remove_callback(profiler->callback_handle());
  if (!options.consolidate || profiler->config().passes_on()) return {};
  profiler->mark(kStopProfileMark, false);
  return profiler->consolidate();
}

// Records an instant of the calling thread, in the device states with a device event unless told
// otherwise. Without a profiler on this thread nothing happens.
inline void mark(const std::string& name, bool include_device = true) {
  if (ProfilerStateBase* profiler = running_profiler_state())
    profiler->mark(name.c_str(), include_device);
}

// Adds one list of events of another process; each call stays a list of its own. StateError without
// a profiler here. Any thread that has the profiler, at the same time.
inline void add_remote_events(LegacyEventList events) {
  ProfilerStateBase* profiler = running_profiler_state();
  if (profiler == nullptr)
    raise<StateError>("Profiler must be enabled. Call enable_profiler on this thread first");
  LegacyEventLists lists;
  lists.push_back(std::move(events));
  profiler->add_remote_events(std::move(lists));
}

// The same with the bytes of encode_event_lists: each list of them stays one. FormatError naming
// the byte when they do not follow the format; nothing is added then.
inline void add_remote_events(std::string_view bytes) {
  ProfilerStateBase* profiler = running_profiler_state();
  if (profiler == nullptr)
    raise<StateError>("Profiler must be enabled. Call enable_profiler on this thread first");
  profiler->add_remote_events(decode_event_lists(bytes));
}

// Whether the calling thread has an exclusive profiler in a state other than Disabled.
inline bool profiler_enabled() noexcept {
  const ProfilerStateBase* profiler = running_profiler_state();
  return profiler != nullptr && !profiler->config().disabled();
}

// What kind of exclusive profiler the calling thread has. Sessions are not asked.
inline ActiveProfilerType profiler_type() noexcept {
  const ProfilerStateBase* profiler = running_profiler_state();
  return profiler != nullptr ? active_profiler_type(profiler->config().state)
                             : ActiveProfilerType::NONE;
}

// The configuration of the calling thread's exclusive profiler. StateError when there is none.
inline ProfilerConfig profiler_config() {
  const ProfilerStateBase* profiler = running_profiler_state();
  if (profiler == nullptr)
    raise<StateError>("Profiler must be enabled. Call enable_profiler on this thread first");
  return profiler->config();
}

FASTPROF_NAMESPACE_END
