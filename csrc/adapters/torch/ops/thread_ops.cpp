// SPDX-License-Identifier: Apache-2.0
// ThreadOps: allocated at a thread's first op, freed at thread exit.
#include "adapters/torch/ops/thread_ops.hpp"

#include <pthread.h>

#include <atomic>

#include "adapters/torch/ops/short_ops.hpp"
#include "fastprof/leader/attach.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

OpView g_op_view;
__thread ThreadOps* t_ops = nullptr;

namespace {

void free_thread_ops(void* memory) noexcept {
  auto* ops = static_cast<ThreadOps*>(memory);
  add_left_out(ops);
  t_ops = nullptr;  // contexts of ops still in progress are freed when these end
  while (ops->free != nullptr) {
    ContextMemory* next = ops->free->next;
    std::free(ops->free);
    ops->free = next;
  }
  std::free(ops->memory);
}

// A pthread key instead of a destructor of t_ops: destructors run before the last ops of a thread
// may.
pthread_key_t thread_key() noexcept {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    if (pthread_key_create(&made, [](void* memory) { free_thread_ops(memory); }) != 0)
      return pthread_key_t(-1);
    return made;
  }();
  return key;
}

}  // namespace

ThreadOps* thread_ops_anywhere() noexcept {
  return t_ops;
}

intptr_t thread_ops_offset() noexcept {
  intptr_t of_block = 0;
  return platform::probe_thread_block(of_block) ? reinterpret_cast<char*>(&t_ops) - thread_pointer()
                                                : 0;
}

void forget_tracks_in_child() noexcept {
  ThreadOps* ops = thread_ops();
  if (ops == nullptr) return;
  ops->flags |= ops_flag::unknown_track;
  ops->forward_thread = ops->forward_track = 0;
}

ThreadOps* make_thread_ops() noexcept {
  const pthread_key_t key = thread_key();
  if (key == pthread_key_t(-1)) return nullptr;
  // calloc instead of aligned memory: fresh pages from the kernel stay untouched until used.
  void* memory = std::calloc(1, sizeof(ThreadOps) + alignof(ThreadOps));
  if (memory == nullptr) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(memory) + alignof(ThreadOps) - 1;
  auto* ops = reinterpret_cast<ThreadOps*>(address & ~(uintptr_t{alignof(ThreadOps)} - 1));
  static std::atomic<uint64_t> last_id{0};
  ops->id = last_id.fetch_add(1, std::memory_order_relaxed) + 1;
  ops->memory = memory;
  ops->flags = ops_flag::unknown_track;
  if (pthread_setspecific(key, ops) != 0) {
    std::free(memory);
    return nullptr;
  }
  t_ops = ops;
  return ops;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
