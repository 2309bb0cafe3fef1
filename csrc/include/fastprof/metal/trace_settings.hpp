// SPDX-License-Identifier: Apache-2.0
// TraceSettings: options and observer of the Metal profiler. Validates changes, opens the system's
// logs, and keeps in one word which kinds of work are profiled.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/metal/observer.hpp"
#include "fastprof/metal/options.hpp"
#include "fastprof/metal/platform.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

// Kinds of work, as bits.
constexpr uint32_t kOperations = 1, kCopies = 2, kFallbacks = 4;

// Thread rule: wants() may be called on any thread; for all else the caller holds the profiler's
// lock. Signposts::open() is called with it held, so a platform's must not call the profiler.
class TraceSettings {
 public:
  // Raises ValueError if the options are invalid, UnavailableError if the system refuses a log.
  TraceSettings(Signposts& signposts, const Options& options)
      : signposts_(signposts), base_log_(options.log) {
    apply(options, "the profiler's options");
  }

  bool wants(uint32_t kind) const noexcept {
    return (__atomic_load_n(&wanted_, __ATOMIC_RELAXED) & kind) != 0;
  }
  const Options& options() const noexcept { return options_; }
  const std::shared_ptr<ExecutionObserver>& observer() const noexcept { return observer_; }
  bool labels_buffers() const noexcept { return labels_buffers_; }

  // See the functions of Profiler with these names.
  void start_trace(std::string_view mode, bool wait_until_completed) {
    Options wanted;
    wanted.profile = parse_mode(mode) | (wait_until_completed ? uint32_t{WAIT_UNTIL_COMPLETED} : 0);
    if (options_.profile != OPTIONS_NONE)
      raise<StateError>("signposts are traced already: stop that trace first");
    wanted.log = base_log_;
    apply(wanted, "start_trace()");
  }
  void stop_trace() {
    Options wanted;
    wanted.log = base_log_;
    apply(wanted, "stop_trace()");
  }
  void set_log_options(uint32_t log) {
    Options wanted = options_;
    wanted.log = log;
    check_options(wanted, "set_log_options()");
    base_log_ = log;
    apply(wanted, "set_log_options()");
  }
  void set_observer(std::shared_ptr<ExecutionObserver> observer) {
    observer_ = std::move(observer);
    publish_wants();
  }
  void label_buffers(bool on) {
    labels_buffers_ = on;
    publish_wants();
  }

 private:
  void publish_wants() noexcept {
    const uint32_t wanted = observer_ != nullptr || labels_buffers_
                                ? kOperations | kCopies | kFallbacks
                                : (options_.operations() ? kOperations : 0) |
                                      (options_.copies() ? kCopies : 0) |
                                      (options_.fallbacks() ? kFallbacks : 0);
    __atomic_store_n(&wanted_, wanted, __ATOMIC_RELAXED);
  }
  void apply(const Options& wanted, const char* where) {
    const Options resolved = resolve_options(wanted, where);
    for (const auto& [bit, log] : {std::pair{USE_EVENTS, SignpostLog::events},
                                   std::pair{USE_INTERVALS, SignpostLog::intervals}})
      if (resolved.signpost_tracing() && (resolved.profile & bit) != 0 && !signposts_.open(log))
        raise<UnavailableError>("the system created no log for signposts: trace none, or retry");
    options_ = resolved;
    publish_wants();
  }

  Signposts& signposts_;
  Options options_;
  uint32_t base_log_ = 0;  // log options while no trace runs
  uint32_t wanted_ = 0;    // relaxed atomic: kinds of work that options_ or observer_ request
  std::shared_ptr<ExecutionObserver> observer_;
  bool labels_buffers_ = false;
};

}  // namespace metal
FASTPROF_NAMESPACE_END
