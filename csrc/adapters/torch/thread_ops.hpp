// SPDX-License-Identifier: Apache-2.0
// What a thread that runs ops keeps: the names it has met, and contexts for ops in progress.
#pragma once

#include <cstddef>
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

struct ContextMemory;
struct ThreadOps;

// The calling thread's, null until its first op and after its end. __thread: thread_local would be
// reached through a function that initialises it.
extern __thread ThreadOps* t_ops;
FASTPROF_COLD ThreadOps* thread_ops_anywhere() noexcept;

// The same where the library lies in static thread-local storage, without a call; null elsewhere.
FASTPROF_ALWAYS_INLINE ThreadOps* thread_ops_here() noexcept {
  const intptr_t offset = g_op_view.thread_ops;
  if (FASTPROF_UNLIKELY(offset == 0)) return nullptr;
  return *reinterpret_cast<ThreadOps**>(thread_pointer() + offset);
}

// The same in any case.
FASTPROF_ALWAYS_INLINE ThreadOps* thread_ops() noexcept {
  return FASTPROF_LIKELY(g_op_view.thread_ops != 0) ? thread_ops_here() : thread_ops_anywhere();
}

// What OpView::thread_ops is to be.
intptr_t thread_ops_offset() noexcept;

// An op in progress. Made and destroyed on any thread; libtorch destroys it with its
// RecordFunction, which may be long after the profile. It lies in a ContextMemory, never in a
// recorder's chunk, which may be recycled by then.
struct OpContext final : ObserverContextView {
  OpContext(const OpenRange& open, const Site* of, uint32_t on_track) noexcept
      : slot(open.slot), begin(open.begin), site(of), track(on_track) {}
  ~OpContext() override;  // in op_callbacks.cpp, beside what else every op runs
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

// malloc's, a cache line each. Ops of one thread come and go in order, so that the same few are
// used again and again.
struct alignas(64) ContextMemory {
  uint64_t home;  // ThreadOps::id of the thread that uses it, which may have ended
  union {
    ContextMemory* next;  // while it is free
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

// Why the callback has more to do than to record: bits of ThreadOps::flags.
namespace ops_flag {
constexpr uint32_t unknown_track = 1;  // libtorch's id of this thread is in no table yet
constexpr uint32_t paused = 2;  // what begins is recorded elsewhere: as a range of fastprof's own
}  // namespace ops_flag

struct ThreadOps {
  ContextMemory* free;  // as many as the thread has had ops in progress at once
  uint32_t flags;       // ops_flag
  uint64_t id;          // no other thread's has it, ever; not 0
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

// Whether the op that begins is of a forward thread that its thread knows (0: it has none), and
// neither async nor a collective: all that is not left to start_slow_op.
FASTPROF_ALWAYS_INLINE bool is_simple_op(const ThreadOps* ops, const OpName* name, const void* rf,
                                         uint64_t forward_thread) noexcept {
  // All at once, for it is one guess of the processor's then.
  const uint32_t unknown = (forward_thread != 0) & (forward_thread != ops->forward_thread);
  return (unknown | field<uint8_t>(rf, g_op_view.is_async) | name->collective) == 0;
}

// The track of the forward thread of such an op; 0 where it has none.
FASTPROF_ALWAYS_INLINE uint64_t forward_track_of(const ThreadOps* ops,
                                                 uint64_t forward_thread) noexcept {
  return ops->forward_track & (uint64_t{0} - static_cast<uint64_t>(forward_thread != 0));
}

// In a forked child, whose tracks are new: what its thread knew of them.
FASTPROF_COLD void forget_tracks_in_child() noexcept;

// Makes the calling thread's; null without memory. Freed when the thread ends.
FASTPROF_COLD ThreadOps* make_thread_ops() noexcept;

// Null when there is no memory.
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

// On any thread: another thread's is not kept, nor one of a thread that has ended.
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
