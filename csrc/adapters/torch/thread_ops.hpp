// SPDX-License-Identifier: Apache-2.0
// What a thread that runs ops keeps: the names it has met, and contexts for ops in progress.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

#include "adapters/torch/op_names.hpp"
#include "adapters/torch/op_view.hpp"
#include "adapters/torch/record_function_layout.hpp"
#include "adapters/torch/stack_capture.hpp"
#include "fastprof/recorder/local_sessions.hpp"
#include "fastprof/recorder/range.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

struct ThreadOps;

// The calling thread's, null until its first op and after its end. __thread: thread_local would be
// reached through a function that initialises it.
extern __thread ThreadOps* t_ops;
FASTPROF_COLD ThreadOps* thread_ops_anywhere() noexcept;

// The same, without a call where the library lies in static thread-local storage.
FASTPROF_ALWAYS_INLINE ThreadOps* thread_ops() noexcept {
  const intptr_t offset = g_op_view.thread_ops;
  if (FASTPROF_UNLIKELY(offset == 0)) return thread_ops_anywhere();
  return *reinterpret_cast<ThreadOps**>(thread_pointer() + offset);
}

// What OpView::thread_ops is to be.
intptr_t thread_ops_offset() noexcept;

// An op in progress. Made and destroyed on any thread; libtorch destroys it with its
// RecordFunction, which may be long after the profile. Its memory is the thread's own or malloc's,
// never a recorder's chunk, which may be recycled by then.
struct OpContext final : ObserverContextView {
  OpContext(const OpenRange& open, const Site* of, uint32_t on_track) noexcept
      : slot(open.slot), begin(open.begin), site(of), track(on_track) {}
  ~OpContext() override = default;
  // Placed into memory of take_context().
  static void* operator new(size_t, void* memory) noexcept { return memory; }
  static void operator delete(void* memory, void*) noexcept { std::free(memory); }
  static void operator delete(void* memory) noexcept;

  Slot* slot;
  uint64_t begin;
  const Site* site;
  uint32_t track;
  uint16_t is_async = 0;
  uint16_t encloses = 0;  // it is the op of its thread's EnclosingStack
};

// Why the callback has more to do than to record: bits of ThreadOps::flags.
namespace ops_flag {
constexpr uint32_t unknown_track = 1;  // libtorch's id of this thread is in no table yet
constexpr uint32_t paused = 2;  // what begins is recorded by somebody else: torch_fast_ranges.cpp
}  // namespace ops_flag

struct ThreadOps {
  struct Free {
    Free* next;
  };
  static constexpr uint32_t kMaxFree = 256;

  Free* free;  // contexts, at most kMaxFree
  uint32_t free_count;
  uint32_t flags;  // ops_flag
  // The last forward thread met: libtorch's id and ours.
  uint64_t forward_thread;
  uint64_t forward_track;
  EnclosingStack enclosing;
  // The sessions that came with the work in progress (session_travel.hpp), 0 for none, and which of
  // them the thread joined for it.
  uint64_t travel;
  SessionStay stay;
  void* memory;  // what it lies in
  OpNames names;
};

// Makes the calling thread's; null without memory. Freed when the thread ends.
FASTPROF_COLD ThreadOps* make_thread_ops() noexcept;

// Memory for one; null when there is none.
FASTPROF_ALWAYS_INLINE void* take_context(ThreadOps* ops) noexcept {
  ThreadOps::Free* top = ops->free;
  if (FASTPROF_UNLIKELY(top == nullptr)) return std::malloc(sizeof(OpContext));
  ops->free = top->next;
  --ops->free_count;
  return top;
}

inline void OpContext::operator delete(void* memory) noexcept {
  ThreadOps* ops = thread_ops();
  if (FASTPROF_UNLIKELY(ops == nullptr || ops->free_count >= ThreadOps::kMaxFree)) {
    std::free(memory);
    return;
  }
  auto* top = static_cast<ThreadOps::Free*>(memory);
  top->next = ops->free;
  ops->free = top;
  ++ops->free_count;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
