// SPDX-License-Identifier: Apache-2.0
// The fork handler: see fork.hpp.
#include "backends/annotations/fork.hpp"

#include <pthread.h>

#include "backends/annotations/domain.hpp"
#include "backends/annotations/started_ranges.hpp"
#include "backends/annotations/thread_names.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {
namespace {

void renew_in_child() noexcept {
  Domain::renew_in_child();
  StartedRanges::of_process().renew_in_child();
  renew_thread_names_in_child();
}

}  // namespace

void watch_forks() noexcept {
  static const int registered = ::pthread_atfork(nullptr, nullptr, &renew_in_child);
  (void)registered;
}

}  // namespace annotations
FASTPROF_NAMESPACE_END
