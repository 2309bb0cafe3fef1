// SPDX-License-Identifier: Apache-2.0
// Names of threads: see thread_names.hpp.
#include "backends/annotations/thread_names.hpp"

#include <map>
#include <mutex>
#include <new>
#include <string>

#include "fastprof/base/child_handler.hpp"
#include "fastprof/platform/threads.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"
#include "fastprof/recorder/state/lock.hpp"
#include "fastprof/recorder/store/track_name.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {
namespace {

constexpr size_t kMaxAwaiting = 4096;

struct AwaitingNames {
  std::mutex lock;
  std::map<uint32_t, std::string> by_tid;
};
AwaitingNames& awaiting() noexcept {
  static AwaitingNames& all = *new AwaitingNames;
  return all;
}

bool name_known_track(uint32_t tid, std::string_view name) noexcept {
  State* s = state();
  if (s->functions == nullptr) return false;
  StateLock hold(s);
  for (Track* track = s->tracks; track != nullptr; track = track->next) {
    if (track->tid != tid || track->pid != s->pid || track->alive == 0 || track->is_signal != 0 ||
        track->block == nullptr)
      continue;
    set_track_text(track, name.data(), name.size(), "");
    label_chunk(s, track);
    return true;
  }
  return false;
}

}  // namespace

void name_thread(uint32_t tid, std::string_view name) noexcept {
  if (tid == 0) tid = platform::thread_id();
  if (tid == platform::thread_id() && state()->functions != nullptr) {
    set_thread_name(name);
    return;
  }
  if (name_known_track(tid, name)) return;
  const std::lock_guard<std::mutex> hold(awaiting().lock);
  try {
    if (awaiting().by_tid.size() < kMaxAwaiting) awaiting().by_tid[tid] = name;
  } catch (const std::bad_alloc&) {
    return;  // the thread keeps the kernel's name
  }
  __atomic_fetch_add(&g_awaiting_names, 1u, __ATOMIC_RELAXED);
}

uint32_t take_awaiting_name() noexcept {
  const uint32_t seen = load_relaxed(&g_awaiting_names);
  const std::lock_guard<std::mutex> hold(awaiting().lock);
  const auto found = awaiting().by_tid.find(platform::thread_id());
  if (found == awaiting().by_tid.end()) return seen;
  set_thread_name(found->second);
  awaiting().by_tid.erase(found);
  return seen;
}

void watch_forks_of_thread_names() noexcept {
  static ChildHandler handler;
  handler.install(
      [] {
        renew_lock(awaiting().lock);
        new (&awaiting().by_tid) std::map<uint32_t, std::string>;  // leaked: it may be inconsistent
      },
      awaiting());
}

}  // namespace annotations
FASTPROF_NAMESPACE_END
