// SPDX-License-Identifier: Apache-2.0
// What a thread that runs ops keeps: the sites of names it has met, and contexts for ops in
// progress.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

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

// An op in progress. Made and destroyed on any thread; libtorch destroys it with its
// RecordFunction, which may be long after the profile. Its memory is the thread's own or malloc's,
// never a recorder's chunk, which may be recycled by then.
struct OpContext final : ObserverContextView {
  ~OpContext() override = default;
  static void* operator new(size_t size, ThreadOps* ops) noexcept;
  static void operator delete(void* memory, ThreadOps*) noexcept { std::free(memory); }
  static void operator delete(void* memory) noexcept;

  Slot* slot = nullptr;
  uint64_t begin = 0;
  const Site* site = nullptr;
  uint32_t track = 0;
  bool is_async = false;
  bool encloses = false;  // it is the op of its thread's EnclosingStack
};

struct ThreadOps {
  // A name met before: by the address that RecordFunction::name() returned, whose text is compared,
  // for the memory may hold another name by now; or by the text alone, for names that libtorch
  // makes anew each time.
  struct Name {
    const char* pointer;
    const Site* site;
  };
  struct Text {
    size_t length;
    const Site* site;
  };
  struct Free {
    Free* next;
  };
  static constexpr unsigned kNameBits = 10;
  static constexpr unsigned kTextBits = 8;

  Free* free;  // contexts, at most kMaxFree
  uint32_t free_count;
  bool track_known;  // libtorch's id of this thread is in the table of threads
  bool paused;       // what begins is recorded by somebody else: see torch_fast_ranges.cpp
  // The last forward thread met: libtorch's id and ours.
  uint64_t forward_thread;
  uint64_t forward_track;
  // The sessions that came with the work in progress (session_travel.hpp), 0 for none, and which of
  // them the thread joined for it.
  uint64_t travel;
  SessionStay stay;
  EnclosingStack enclosing;
  Name names[1u << kNameBits];
  Text texts[1u << kTextBits];

  static constexpr uint32_t kMaxFree = 256;

  FASTPROF_ALWAYS_INLINE Name& name_entry(const char* pointer) noexcept {
    const auto word = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer));
    return names[(word * 0x9E3779B97F4A7C15u) >> (64 - kNameBits)];
  }
  // Many names differ in one short word: ViewBackward0, MeanBackward0.
  Text& text_entry(const char* text, size_t length) noexcept {
    uint64_t last = 0, before = 0;
    if (length >= 8) {
      std::memcpy(&last, text + length - 8, 8);
      std::memcpy(&before, length >= 16 ? text + length - 16 : text, 8);
    } else {
      std::memcpy(&last, text, length);
    }
    const uint64_t mixed = (last ^ (before * 0xD6E8FEB86659FD93u) ^ length) * 0x9E3779B97F4A7C15u;
    return texts[(mixed ^ (mixed >> 32)) * 0x9E3779B97F4A7C15u >> (64 - kTextBits)];
  }
};

// Makes the calling thread's; null without memory. Freed when the thread ends.
ThreadOps* make_thread_ops() noexcept;

FASTPROF_ALWAYS_INLINE void* OpContext::operator new(size_t size, ThreadOps* ops) noexcept {
  ThreadOps::Free* top = ops->free;
  if (FASTPROF_UNLIKELY(top == nullptr)) return std::malloc(size);
  ops->free = top->next;
  --ops->free_count;
  return top;
}

inline void OpContext::operator delete(void* memory) noexcept {
  ThreadOps* ops = t_ops;
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
