// SPDX-License-Identifier: Apache-2.0
// Execution: state of one run, copy or fallback from its begin until its command buffer has
// completed, and the log lines and signposts that it makes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/metal/observer.hpp"
#include "fastprof/metal/options.hpp"
#include "fastprof/metal/platform.hpp"
#include "fastprof/metal/texts.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

struct Execution {
  Work work;
  std::string text;                         // of lines and signposts, without times
  size_t index = 0;                         // in the statistics of its kind
  bool blocking = false;                    // of a copy
  bool visible = true;                      // has lines and signposts
  double begin_s = 0;                       // of the host's clock
  uint64_t event_id = 0, interval_id = 0;   // 0: no signpost
  std::atomic<bool> interval_begun{false};  // by the begin or by a scheduled handler
  std::shared_ptr<ExecutionObserver> observer;
  uint64_t observed = 0;  // the observer's number; 0: it is not observed
  Queue queue;            // of a whole command buffer that is observed
};

inline SignpostName signpost_name(WorkKind kind) noexcept {
  return kind == WorkKind::copy           ? SignpostName::copy
         : kind == WorkKind::cpu_fallback ? SignpostName::cpu_fallback
                                          : SignpostName::operation;
}
inline uint32_t signpost_type(WorkKind kind) noexcept {
  return kind == WorkKind::copy           ? uint32_t{BLIT_COPY}
         : kind == WorkKind::cpu_fallback ? uint32_t{CPU_FALLBACK}
                                          : uint32_t{RUN_OPERATION};
}

// Whether a line is printed at the begin or at the end: at the end if it is to show times.
inline bool prints_info(const Options& now, WorkKind kind, bool at_end) noexcept {
  const uint32_t info = kind == WorkKind::copy           ? uint32_t{COPY_INFO}
                        : kind == WorkKind::cpu_fallback ? uint32_t{CPU_FALLBACK_INFO}
                                                         : uint32_t{OPERATION_INFO};
  return (now.log & info) != 0 &&
         ((now.log & (INCLUDE_GPU_TIME | INCLUDE_KERNEL_TIME)) != 0) == at_end;
}

// The text with its times. other_ms: scheduling time, which is added to the GPU's time unless
// INCLUDE_KERNEL_TIME is set; the CPU's time of work that it did.
inline std::string text_at_end(const Execution& execution, const Options& now, double gpu_ms,
                               double other_ms, bool failed) {
  if (gpu_ms > 0 && (now.log & INCLUDE_KERNEL_TIME) == 0) gpu_ms += std::exchange(other_ms, 0.0);
  const std::string times = times_text(gpu_ms, other_ms, execution.work.on_gpu ? "KRNL" : "CPU");
  return execution.text + (times.empty() ? "" : " " + times) + (failed ? " [failed]" : "");
}

// Begins the interval if a tool records the log and it has not begun yet.
inline void begin_interval(Execution& execution, Signposts& signposts) {
  if (execution.interval_id == 0 || !signposts.enabled(SignpostLog::intervals)) return;
  if (execution.interval_begun.exchange(true)) return;
  signposts.begin(signpost_name(execution.work.kind), execution.interval_id,
                  execution.text.c_str());
}

// Emits the event. Ends the interval if it began, even if the trace has been stopped meanwhile.
inline void end_signposts(Execution& execution, const Options& now, const std::string& text,
                          Signposts& signposts) {
  const SignpostName name = signpost_name(execution.work.kind);
  if (execution.event_id != 0 && (now.profile & USE_EVENTS) != 0 &&
      (now.signposts & signpost_type(execution.work.kind)) != 0 &&
      signposts.enabled(SignpostLog::events))
    signposts.event(name, execution.event_id, text.c_str());
  if (execution.interval_begun.load()) signposts.end(name, execution.interval_id);
}

}  // namespace metal
FASTPROF_NAMESPACE_END
