// SPDX-License-Identifier: Apache-2.0
// TLSLegacyProfilerGuard: enables the exclusive profiler for a scope and passes its events to a
// callback.
#pragma once

#include <cstdio>
#include <exception>
#include <functional>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/legacy/legacy_profiler.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace legacy_detail {

// As disable_profiler, but reports a failure on stderr and returns false.
inline bool disable_quietly(ProfilerDisableOptions options, LegacyEventLists* lists,
                            const char* whose) noexcept {
  if (!profiler_is_newest()) {
    std::fprintf(stderr,
                 "fastprof: %s: Can't disable profiler when it's not running, or not the newest "
                 "debug info of "
                 "this thread; destroy guards in reverse order on the thread that made them\n",
                 whose);
    return false;
  }
#if FASTPROF_EXCEPTIONS
  try {
    *lists = disable_profiler(options);
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fastprof: %s: %s\n", whose, error.what());
  } catch (...) {
    std::fprintf(stderr, "fastprof: %s: the profiler could not be disabled\n", whose);
  }
  return false;
#else
  *lists = disable_profiler(options);
  return true;
#endif
}

}  // namespace legacy_detail

// The constructor enables the profiler; the destructor disables it with `options` and calls
// `callback` with the events. Exceptions of the callback are reported on stderr. Destroy on the
// same thread, in reverse order.
class TLSLegacyProfilerGuard {
 public:
  using Callback = std::function<void(const LegacyEventLists&)>;

  // Raises as enable_profiler does. `callback` may be empty.
  explicit TLSLegacyProfilerGuard(const ProfilerConfig& config, Callback callback = {},
                                  ProfilerDisableOptions options = {})
      : callback_(std::move(callback)), options_(options) {
    enable_profiler(config);
  }

  ~TLSLegacyProfilerGuard() {
    LegacyEventLists lists;
    if (!legacy_detail::disable_quietly(options_, &lists, "TLSLegacyProfilerGuard") || !callback_)
      return;
#if FASTPROF_EXCEPTIONS
    try {
      callback_(lists);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "fastprof: Got error processing profiler events: %s\n", error.what());
    } catch (...) {
      std::fprintf(stderr, "fastprof: Got error processing profiler events\n");
    }
#else
    callback_(lists);
#endif
  }

  TLSLegacyProfilerGuard(const TLSLegacyProfilerGuard&) = delete;
  TLSLegacyProfilerGuard& operator=(const TLSLegacyProfilerGuard&) = delete;

 private:
  Callback callback_;
  ProfilerDisableOptions options_;
};

FASTPROF_NAMESPACE_END
