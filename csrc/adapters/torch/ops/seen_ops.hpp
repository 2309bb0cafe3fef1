// SPDX-License-Identifier: Apache-2.0
// Tests a prepared layout: records what a callback reads for ops whose outcome is known.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// One RecordFunction as read by the prepared layout.
struct SeenOp {
  std::string name;
  int scope;
  int64_t sequence_nr;
  uint64_t thread_id;
  uint64_t forward_thread_id;
};

// Runs `work` with a callback on the calling thread. Returns the ops it observed and the thread's
// id in libtorch. Raises StateError if not prepared or if another thread is observing. `work` may
// throw.
struct Observed {
  std::vector<SeenOp> ops;
  uint64_t thread_id;
};
Observed observe(const std::function<void()>& work);

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
