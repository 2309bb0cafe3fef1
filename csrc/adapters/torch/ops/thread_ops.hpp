// SPDX-License-Identifier: Apache-2.0
// ThreadOps: per-thread data of the op observer: cached names, and contexts of ops in progress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "adapters/torch/layout/op_view.hpp"
#include "adapters/torch/layout/record_function_layout.hpp"
#include "adapters/torch/ops/op_names.hpp"
#include "adapters/torch/ops/stack_capture.hpp"
#include "fastprof/recorder/hot_path/local_sessions.hpp"
#include "fastprof/recorder/hot_path/range.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

struct ContextMemory;
struct ThreadOps;

// The calling thread's ThreadOps; null before its first op and after thread exit. __thread, because
// thread_local access would call an initialisation function.
extern __thread ThreadOps* t_ops;
FASTPROF_COLD ThreadOps* thread_ops_anywhere() noexcept;

// Returns t_ops without a call, if the library is in static thread-local storage; otherwise null.
FASTPROF_ALWAYS_INLINE ThreadOps* thread_ops_here() noexcept {
  const intptr_t offset = g_op_view.thread_ops;
  if (FASTPROF_UNLIKELY(offset == 0)) return nullptr;
  return *reinterpret_cast<ThreadOps**>(thread_pointer() + offset);
}

// Returns t_ops in either case.
FASTPROF_ALWAYS_INLINE ThreadOps* thread_ops() noexcept {
  return FASTPROF_LIKELY(g_op_view.thread_ops != 0) ? thread_ops_here() : thread_ops_anywhere();
}

// Returns the value for OpView::thread_ops.
intptr_t thread_ops_offset() noexcept;

// Observer context of an op in progress. Created and destroyed on any thread; libtorch destroys it
// with its RecordFunction, possibly long after the profile. It is stored in a ContextMemory and not
// in a recorder chunk, which may be recycled by then.
struct OpContext final : ObserverContextView {
  OpContext(const OpenRange& open, const Site* of, uint32_t on_track) noexcept
      : slot(open.slot), begin(open.begin), site(of), track(on_track) {}
  ~OpContext() override;  // defined in op_callbacks.cpp, next to the other code of every op
  static void* operator new(size_t, ContextMemory* memory) noexcept;
  static void operator delete(void* object, ContextMemory*) noexcept { operator delete(object); }
  static void operator delete(void* object) noexcept;

  Slot* slot;
  uint64_t begin;
  const Site* site;
  uint32_t track;
  uint16_t is_async = 0;
  uint16_t encloses = 0;  // it is the op of its thread's EnclosingStack
};

// Memory of one context: one cache line, from malloc. Ops of a thread mostly nest, so the same few
// are reused.
struct alignas(64) ContextMemory {
  uint64_t home;  // ThreadOps::id of the owning thread, which may have exited
  union {
    ContextMemory* next;  // free list
    alignas(OpContext) unsigned char object[sizeof(OpContext)];
  };
  static ContextMemory* of(const void* object) noexcept {
    return reinterpret_cast<ContextMemory*>(reinterpret_cast<uintptr_t>(object) -
                                            offsetof(ContextMemory, object));
  }
};
static_assert(sizeof(ContextMemory) == 64, "one cache line");
inline void* OpContext::operator new(size_t, ContextMemory* memory) noexcept {
  return memory->object;
}

// Reasons for the slow path: bits of ThreadOps::flags.
namespace ops_flag {
constexpr uint32_t unknown_track = 1;  // this thread's libtorch id is not mapped yet
constexpr uint32_t paused = 2;         // new ops are recorded otherwise: as fastprof's own ranges
}  // namespace ops_flag

// Per-thread data. Owning thread only.
struct ThreadOps {
  ContextMemory* free;     // free list; as many as the thread's maximum of simultaneous ops
  uint32_t flags;          // ops_flag
  uint32_t left_out;       // short ops that are not counted elsewhere yet (short_ops.hpp)
  uint64_t paused_handle;  // RecordFunction number of the last op that began while paused, 0: none
  uint64_t id;             // unique over the life of the process; not 0
  // Cache of the last forward thread: libtorch's id and our track id.
  uint64_t forward_thread;
  uint64_t forward_track;
  EnclosingStack enclosing;
  // The sessions propagated with the current work (torch_propagation.hpp), 0 for none, and the
  // ones that the thread joined for it.
  uint64_t propagation_id;
  SessionStay stay;
  void* memory;  // the allocation it is in
  OpNames names;
};

// Returns whether an op that begins needs no slow path: not async, not a collective, and its
// forward thread, if any, is the cached one.
FASTPROF_ALWAYS_INLINE bool is_simple_op(const ThreadOps* ops, const OpName* name, const void* rf,
                                         uint64_t forward_thread) noexcept {
  // Combined into one condition, so that there is one branch to predict.
  const uint32_t unknown = (forward_thread != 0) & (forward_thread != ops->forward_thread);
  return (unknown | field<uint8_t>(rf, g_op_view.is_async) | name->collective) == 0;
}

// Returns the track of the forward thread of such an op; 0 if it has none.
FASTPROF_ALWAYS_INLINE uint64_t forward_track_of(const ThreadOps* ops,
                                                 uint64_t forward_thread) noexcept {
  return ops->forward_track & (uint64_t{0} - static_cast<uint64_t>(forward_thread != 0));
}

// In a forked child, whose tracks are new: clears cached tracks.
FASTPROF_COLD void forget_tracks_in_child() noexcept;

// Creates the calling thread's ThreadOps; null if memory is exhausted. Freed at thread exit.
FASTPROF_COLD ThreadOps* make_thread_ops() noexcept;

// Returns null if memory is exhausted.
inline ContextMemory* take_context_memory(ThreadOps* ops) noexcept {
  ContextMemory* memory = ops->free;
  if (FASTPROF_LIKELY(memory != nullptr)) {
    ops->free = memory->next;
    return memory;
  }
  memory = static_cast<ContextMemory*>(
      std::aligned_alloc(alignof(ContextMemory), sizeof(ContextMemory)));
  if (memory != nullptr) memory->home = ops->id;
  return memory;
}

// Any thread. Memory of another thread, or of one that has exited, is freed instead of kept.
FASTPROF_ALWAYS_INLINE void give_context_memory(ContextMemory* memory) noexcept {
  ThreadOps* ops = thread_ops();
  if (FASTPROF_UNLIKELY(ops == nullptr || memory->home != ops->id)) {
    std::free(memory);
    return;
  }
  memory->next = ops->free;
  ops->free = memory;
}

inline void OpContext::operator delete(void* object) noexcept {
  give_context_memory(ContextMemory::of(object));
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
