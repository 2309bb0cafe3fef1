// SPDX-License-Identifier: Apache-2.0
// ProfilerStateBase: base of a profiler fed by RecordFunctions, stored in a thread's PROFILER_STATE
// debug info.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/legacy/legacy_event.hpp"
#include "fastprof/legacy/profiler_config.hpp"
#include "fastprof/primitives/debug_info.hpp"
#include "fastprof/primitives/memory_reporting.hpp"
#include "fastprof/primitives/record_function.hpp"

FASTPROF_NAMESPACE_BEGIN

// Used only through virtual functions, which are append only, so that libraries built with
// different versions of these headers interoperate.
class ProfilerStateBase : public MemoryReportingInfoBase {
 public:
  ProfilerStateBase* profiler_state() noexcept override { return this; }

  virtual const ProfilerConfig& config() const noexcept = 0;
  // Returns whether this process was forked while the profiler ran in the parent. It then records
  // nothing and returns no events, because a thread of the parent may have held its locks.
  virtual bool inherited() const noexcept = 0;

  // Called at the begin and end of a RecordFunction, on the respective thread. May raise
  // std::bad_alloc.
  virtual void push_range(const RecordFunction& function) = 0;
  virtual void pop_range(const RecordFunction& function) = 0;
  // Records a mark of the calling thread; in the device states with a device event, if
  // include_device.
  virtual void mark(const char* name, bool include_device) = 0;
  // Adds events of another process as separate lists. Any thread.
  virtual void add_remote_events(LegacyEventLists lists) = 0;
  // Moves all events out: one list per thread by ascending id, then the remote lists. Any thread.
  virtual LegacyEventLists consolidate() = 0;

  // Handle of the callback that feeds this profiler, kept for its removal.
  virtual void set_callback_handle(CallbackHandle handle) noexcept = 0;
  virtual CallbackHandle callback_handle() const noexcept = 0;
};

// Returns the calling thread's newest profiler, or null. Valid while it stays set on this thread.
inline ProfilerStateBase* current_profiler_state() noexcept {
  DebugInfoBase* info = ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE);
  return info != nullptr ? info->profiler_state() : nullptr;
}

// As current_profiler_state, but null for a profiler inherited through fork.
inline ProfilerStateBase* running_profiler_state() noexcept {
  ProfilerStateBase* profiler = current_profiler_state();
  return profiler != nullptr && !profiler->inherited() ? profiler : nullptr;
}

FASTPROF_NAMESPACE_END
