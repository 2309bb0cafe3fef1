// SPDX-License-Identifier: Apache-2.0
// ProfilerStateBase: what a profiler that RecordFunctions feed puts into the PROFILER_STATE slot of
// a thread.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/legacy/legacy_event.hpp"
#include "fastprof/legacy/profiler_config.hpp"
#include "fastprof/primitives/debug_info.hpp"
#include "fastprof/primitives/memory_reporting.hpp"
#include "fastprof/primitives/record_function.hpp"

FASTPROF_NAMESPACE_BEGIN

// Reached only through virtual functions, so that libraries built against other versions of these
// headers work together; they are only appended.
class ProfilerStateBase : public MemoryReportingInfoBase {
 public:
  ProfilerStateBase* profiler_state() noexcept override { return this; }

  virtual const ProfilerConfig& config() const noexcept = 0;
  // Whether this process is a child that was forked while the profiler ran in its parent: it then
  // records nothing here and has nothing to give, for a thread of the parent may have held its
  // locks.
  virtual bool inherited() const noexcept = 0;

  // The begin and the end of a RecordFunction, on the threads on which they happen. May throw what
  // allocation throws.
  virtual void push_range(const RecordFunction& function) = 0;
  virtual void pop_range(const RecordFunction& function) = 0;
  // An instant of the calling thread, in the device states with a device event when include_device
  // is set.
  virtual void mark(const char* name, bool include_device) = 0;
  // Events of another process, kept as lists of their own. Any thread.
  virtual void add_remote_events(LegacyEventLists lists) = 0;
  // Moves all events out: one list per thread by ascending id, then the remote ones. Any thread.
  virtual LegacyEventLists consolidate() = 0;

  // The registration of the callback that feeds this, remembered for its removal.
  virtual void set_callback_handle(CallbackHandle handle) noexcept = 0;
  virtual CallbackHandle callback_handle() const noexcept = 0;
};

// The profiler of the calling thread that is innermost, or null. Valid while it stays set on this
// thread.
inline ProfilerStateBase* current_profiler_state() noexcept {
  DebugInfoBase* info = ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE);
  return info != nullptr ? info->profiler_state() : nullptr;
}

// The same, but not one that a fork brought along.
inline ProfilerStateBase* running_profiler_state() noexcept {
  ProfilerStateBase* profiler = current_profiler_state();
  return profiler != nullptr && !profiler->inherited() ? profiler : nullptr;
}

FASTPROF_NAMESPACE_END
