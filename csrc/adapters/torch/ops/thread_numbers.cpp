// SPDX-License-Identifier: Apache-2.0
// Map of libtorch's thread ids: see thread_numbers.hpp.
#include "adapters/torch/ops/thread_numbers.hpp"

#include <mutex>
#include <new>
#include <unordered_map>

#include "fastprof/recorder/hot_path/thread.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

struct Threads {
  std::mutex lock;
  std::unordered_map<uint64_t, uint32_t> track_of;
};
Threads& threads() noexcept {
  static Threads& all = *new Threads;
  return all;
}

}  // namespace

FASTPROF_COLD bool note_thread(uint64_t number) noexcept {
  const Track* track = current_track();
  if (track == nullptr) return false;
  Threads& all = threads();
  const std::lock_guard<std::mutex> hold(all.lock);
  all.track_of[number] = track->id;
  return true;
}

FASTPROF_COLD uint32_t track_of(uint64_t number) noexcept {
  Threads& all = threads();
  const std::lock_guard<std::mutex> hold(all.lock);
  const auto found = all.track_of.find(number);
  return found == all.track_of.end() ? 0 : found->second;
}

void forget_thread_numbers_in_child() noexcept {
  // Leaked: another thread of the parent may have been modifying it, holding the lock.
  new (&threads()) Threads;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
