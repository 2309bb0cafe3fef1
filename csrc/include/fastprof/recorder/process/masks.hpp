// SPDX-License-Identifier: Apache-2.0
// Publishing State::mask, which is computed from the live sessions and from the reasons to leave
// the fast path.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/lock.hpp"
#include "fastprof/recorder/state/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// The mask that the live sessions and set_mask_bit require. State::lock held.
inline uint32_t wanted_mask(const State* s) noexcept {
  uint32_t mask = s->extra_mask;
  for (uint64_t rest = s->session_bits; rest != 0; rest &= rest - 1) {
    const SessionSlot& slot = s->sessions[__builtin_ctzll(rest)];
    if (slot.local != 0)
      mask |= mask_bit::local;
    else
      mask |= slot.mask & category::all;
    if (slot.wants_detail != 0) mask |= mask_bit::detail;
  }
  return mask;
}

// Adds the session in slot `index`, which is filled in, to the live sessions, or removes it. Call
// publish_mask afterwards. State::lock held.
inline void enlist_session(State* s, unsigned index) noexcept {
  const SessionSlot& slot = s->sessions[index];
  const uint64_t bit = uint64_t{1} << index;
  s->session_bits |= bit;
  if (slot.policy != OverflowPolicy::overwrite_oldest) s->keep_bits |= bit;
  if (slot.local != 0) s->local_bits |= bit;
  s->max_chunks += slot.max_chunks;
  if (slot.wants_detail != 0) ++s->detail_users;
  if (slot.wants_inputs != 0) store_relaxed(&s->input_users, s->input_users + 1);
}
inline void delist_session(State* s, unsigned index) noexcept {
  const SessionSlot& slot = s->sessions[index];
  const uint64_t bit = uint64_t{1} << index;
  s->session_bits &= ~bit;
  s->keep_bits &= ~bit;
  s->local_bits &= ~bit;
  s->max_chunks -= slot.max_chunks;
  if (slot.wants_detail != 0) --s->detail_users;
  if (slot.wants_inputs != 0) store_relaxed(&s->input_users, s->input_users - 1);
}

// Publishes the mask. Other threads may see it early or late; start and stop add a membarrier.
// Without a static thread block or a reliable tick counter it contains no categories but `dynamic`,
// and the slow path tests real_mask; `callbacks` is always included, because the primitives test it
// without the recorder. State::lock held.
inline void publish_mask(State* s) noexcept {
  const uint32_t mask = wanted_mask(s);
  store_relaxed(&s->real_mask, mask);
  const bool cold = s->tls_static == 0 || s->slow_clock != 0;
  store_relaxed(&s->mask,
                cold && mask != 0 ? mask_bit::dynamic | (mask & mask_bit::callbacks) : mask);
}

// Returns the full mask: State::mask, or real_mask if that contains only mask_bit::dynamic.
FASTPROF_ALWAYS_INLINE uint32_t effective_mask(const State* s) noexcept {
  const uint32_t shown = load_relaxed(&s->mask);
  return FASTPROF_LIKELY((shown & mask_bit::dynamic) == 0) ? shown : load_relaxed(&s->real_mask);
}

// Sets or clears a special bit that belongs to no session (mask_bit::callbacks). Any thread.
inline void set_mask_bit(uint32_t bit, bool on) noexcept {
  State* s = state();
  StateLock hold(s);
  s->extra_mask = on ? s->extra_mask | bit : s->extra_mask & ~bit;
  publish_mask(s);
}

// Whether this thread would now record an event of any of these categories. Any thread; the answer
// may be outdated when it returns.
inline bool recording(uint32_t categories) noexcept {
  State* s = state();
  uint32_t mask = load_relaxed(&s->mask);
  if (FASTPROF_LIKELY((mask & (categories | mask_bit::dynamic | mask_bit::local)) == 0))
    return false;
  if ((mask & mask_bit::dynamic) != 0) mask = load_relaxed(&s->real_mask);
  if ((mask & categories) != 0) return true;
  return (mask & mask_bit::local) != 0 && (thread_block()->mask & categories) != 0;
}

FASTPROF_NAMESPACE_END
