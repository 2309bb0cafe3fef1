// SPDX-License-Identifier: Apache-2.0
// AggregationThread: reads an Aggregator's records on a thread of its own, the more often the
// faster they come.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <mutex>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/platform/process.hpp"
#include "fastprof/platform/threads.hpp"
#include "fastprof/platform/wait_word.hpp"
#include "fastprof/session/aggregator.hpp"

FASTPROF_NAMESPACE_BEGIN

// The thread, from its construction until its destruction, which waits for it. `lock` is held while
// the thread uses the aggregator. A forked child must not destroy it: leave it there.
class AggregationThread {
 public:
  // Throws UnavailableError if no thread can be started.
  AggregationThread(Aggregator& aggregator, std::mutex& lock)
      : aggregator_(aggregator), lock_(lock) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&thread_, nullptr, &AggregationThread::main, this) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!started)
      raise<UnavailableError>(
          "cannot start the thread that aggregates: too many threads. Raise the limit, or do not "
          "aggregate.");
  }
  ~AggregationThread() {
    store_release(&ended_, 1u);  // partner: acquire in main
    platform::wake_all(&ended_);
    pthread_join(thread_, nullptr);
  }
  AggregationThread(const AggregationThread&) = delete;
  AggregationThread& operator=(const AggregationThread&) = delete;

 private:
  static constexpr int64_t kLeastNs = 1000000, kMostNs = 50000000;

  static void* main(void* argument) noexcept {
    auto* self = static_cast<AggregationThread*>(argument);
    platform::name_this_thread("fastprof-sums");
    int64_t period_ns = kMostNs;
    while (load_acquire(&self->ended_) == 0) {
      const double filled = self->read();
      if (filled > 0.25)
        period_ns = std::max(period_ns / 4, kLeastNs);
      else if (filled < 0.06)
        period_ns = std::min(period_ns * 2, kMostNs);
      platform::wait_word(&self->ended_, 0, period_ns);
    }
    return nullptr;
  }

  // Returns the share of the bound that was taken; 1 if memory ran out.
  double read() noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
#if FASTPROF_EXCEPTIONS
    try {
      aggregator_.read();
    } catch (...) {
      return 1;
    }
#else
    aggregator_.read();
#endif
    return aggregator_.filled();
  }

  Aggregator& aggregator_;
  std::mutex& lock_;
  pthread_t thread_{};
  uint32_t ended_ = 0;
};

FASTPROF_NAMESPACE_END
