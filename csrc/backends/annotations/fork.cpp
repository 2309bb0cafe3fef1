// SPDX-License-Identifier: Apache-2.0
// The fork handlers: see fork.hpp.
#include "backends/annotations/fork.hpp"

#include "backends/annotations/domain.hpp"
#include "backends/annotations/started_ranges.hpp"
#include "backends/annotations/thread_names.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {

void watch_forks() noexcept {
  Domain::watch_forks();
  StartedRanges::watch_forks();
  watch_forks_of_thread_names();
}

}  // namespace annotations
FASTPROF_NAMESPACE_END
