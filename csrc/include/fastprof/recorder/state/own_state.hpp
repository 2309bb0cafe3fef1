// SPDX-License-Identifier: Apache-2.0
// The per-library definitions: its own State, which other libraries find
// (platform/shared_state.hpp), the pointer to the elected State, and its thread-local block. All
// hidden, all emitted once per library.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/platform/shared_state.hpp"
#include "fastprof/platform/thread_block.hpp"
#include "fastprof/recorder/state/state.hpp"

FASTPROF_NAMESPACE_BEGIN

// This library's own State. Recording uses *g_recorder.state.
FASTPROF_SHARED_STATE inline State own_state __asm__("fastprof_v1_state"){};

// The library's cached view of the elected State, in one cache line: every record reads it.
struct alignas(32) CurrentRecorder {
  // Never null: before the library has joined it is own_state, whose mask is 0.
  State* state;
  // Copies of State's fields, which save the hot path a load.
  intptr_t tls_offset;
  uint32_t tls_static;
};
inline CurrentRecorder g_recorder{&own_state, 0, 0};

FASTPROF_ALWAYS_INLINE State* state() noexcept {
  return load_relaxed(&g_recorder.state);
}

// The calling thread's block. Valid only if g_recorder.tls_static; otherwise the mask contains
// mask_bit::dynamic. The mask changes behind a process-wide barrier, so a thread that has read a
// mask without that bit reads the offset that belongs to it.
FASTPROF_ALWAYS_INLINE ThreadBlock* static_thread_block() noexcept {
  return reinterpret_cast<ThreadBlock*>(thread_pointer() + load_relaxed(&g_recorder.tls_offset));
}

// This library's own block.
inline ThreadBlock* own_thread_block() noexcept {
  return static_cast<ThreadBlock*>(platform::find_thread_block());
}

FASTPROF_COLD inline ThreadBlock* dynamic_thread_block() noexcept {
  State* s = state();
  const auto find = load_acquire(&s->thread_block);  // partner: provide_thread_block()
  return find != nullptr ? find() : own_thread_block();
}

// The calling thread's block, whichever TLS model applies. Any thread, any time. Acquire; partner:
// show_thread_block().
FASTPROF_ALWAYS_INLINE ThreadBlock* thread_block() noexcept {
  return FASTPROF_LIKELY(load_acquire(&g_recorder.tls_static)) ? static_thread_block()
                                                               : dynamic_thread_block();
}

FASTPROF_NAMESPACE_END
