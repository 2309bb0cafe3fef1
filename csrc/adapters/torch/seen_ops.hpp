// SPDX-License-Identifier: Apache-2.0
// What a callback reads of ops whose outcome is known: how the prepared layout is tried.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// One RecordFunction as a callback on the calling thread reads it by the prepared layout.
struct SeenOp {
  std::string name;
  int scope;
  int64_t sequence_nr;
  uint64_t thread_id;
  uint64_t forward_thread_id;
};

// Runs `work` with a callback on the calling thread, and tells what it saw and the thread's id in
// libtorch: how the layout is tried on ops whose outcome is known. StateError when not prepared.
// `work` may throw.
struct Observed {
  std::vector<SeenOp> ops;
  uint64_t thread_id;
};
Observed observe(const std::function<void()>& work);

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
