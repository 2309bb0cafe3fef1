// SPDX-License-Identifier: Apache-2.0
// StepCallbacks: the callbacks that one RecordFunction is going to call.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/primitives/step_cache.hpp"
#include "fastprof/primitives/step_set.hpp"
#include "fastprof/primitives/thread_primitives.hpp"

FASTPROF_NAMESPACE_BEGIN

inline void free_step(StepSet* set) noexcept {
  if (FASTPROF_UNLIKELY(set->count > kInlineCallbacks)) std::free(set->spilled);
  set->count = 0;
}

// Moves what `from` holds into `to`, which holds nothing.
inline void take_step(StepSet* to, StepSet* from) noexcept {
  to->count = from->count;
  to->needs = from->needs;
  to->scope = from->scope;
  to->thread_id = from->thread_id;
  if (from->count > kInlineCallbacks)
    to->spilled = from->spilled;
  else
    for (uint32_t i = 0; i < from->count; ++i) to->inlined[i] = from->inlined[i];
  from->count = 0;
}

// Appends to a set whose count may grow up to `most`.
inline void append_step(StepSet* set, const ActiveCallback& callback) noexcept {
  if (FASTPROF_UNLIKELY(set->count >= kInlineCallbacks)) {
    auto* grown = step_cache_detail::allocate<ActiveCallback>(set->count + 1);
    const ActiveCallback* old = set->begin();
    for (uint32_t i = 0; i < set->count; ++i) grown[i] = old[i];
    if (set->count > kInlineCallbacks) std::free(set->spilled);
    set->spilled = grown;
    grown[set->count++] = callback;
    return;
  }
  set->inlined[set->count++] = callback;
}

// Cold half of select_step: rebuilds the cache of this thread and scope.
FASTPROF_COLD inline void refresh_step_cache(ThreadPrimitives* primitives, RecordScope scope,
                                             uint64_t version) noexcept {
  // Building allocates; a malloc hook that uses RecordFunction must not find the cache half built.
  primitives->running = 1;
  CallbackList global;
  if (ProcessPrimitives* process = existing_process_primitives()) {
    PrimitivesLock lock(process);
    global = CallbackList::share(process->callbacks);
    version = load_relaxed(&state()->callbacks_version);
  }
  const CallbackList local = CallbackList::share(primitives->callbacks);
  build_step_cache(&primitives->step_caches[static_cast<size_t>(scope)], global, local,
                   static_cast<unsigned>(scope), &primitives->generator, version);
  primitives->running = 0;
}

FASTPROF_NOINLINE inline void take_sampled_step(ThreadPrimitives* primitives, StepCache* cache,
                                                StepSet* out) noexcept {
  primitives->running = 1;  // as above
  take_sampled_step(cache, &primitives->generator,
                    [out](const ActiveCallback& callback, uint8_t needs) {
                      append_step(out, callback);
                      out->needs = static_cast<uint8_t>(out->needs | needs);
                    });
  primitives->running = 0;
}

FASTPROF_NOINLINE inline void spill_step(const StepCache& cache, StepSet* out) noexcept {
  const uint32_t count = cache.active_count;
  out->spilled = step_cache_detail::allocate<ActiveCallback>(count);
  for (uint32_t i = 0; i < count; ++i) out->spilled[i] = cache.active[i];
  out->count = count;
}

// primitives: the calling thread's, or null.
FASTPROF_ALWAYS_INLINE void select_nothing(const ThreadPrimitives* primitives, RecordScope scope,
                                           StepSet* out) noexcept {
  out->count = 0;
  out->needs = 0;
  out->scope = scope;
  out->thread_id = primitives != nullptr ? primitives->thread_id : 0;
}

// Fills `out` with the callbacks of the next RecordFunction of this scope on this thread; counts as
// one trial for sampled callbacks. Neither disabled nor running.
FASTPROF_ALWAYS_INLINE void select_step(ThreadPrimitives* primitives, RecordScope scope,
                                        StepSet* out) noexcept {
  StepCache* cache = &primitives->step_caches[static_cast<size_t>(scope)];
  // Acquire pairs with the release increment in callbacks.hpp.
  const uint64_t version = load_acquire(&state()->callbacks_version);
  if (FASTPROF_UNLIKELY(cache->version_plus_1 != version + 1))
    refresh_step_cache(primitives, scope, version);
  select_nothing(primitives, scope, out);
  if (FASTPROF_UNLIKELY(cache->countdown != 0) && --cache->countdown == 0) {
    take_sampled_step(primitives, cache, out);
    return;
  }
  out->needs = cache->active_needs;
  if (FASTPROF_UNLIKELY(cache->active_count > kInlineCallbacks)) {
    spill_step(*cache, out);
    return;
  }
  const uint32_t count = cache->active_count;
  for (uint32_t i = 0; i < count; ++i) out->inlined[i] = cache->inline_active[i];
  out->count = count;
}

// State::mask as it would be with static thread-local storage.
FASTPROF_ALWAYS_INLINE uint32_t effective_mask() noexcept {
  const State* s = state();
  const uint32_t shown = load_relaxed(&s->mask);
  return FASTPROF_LIKELY((shown & mask_bit::dynamic) == 0) ? shown : load_relaxed(&s->real_mask);
}

// The primitives of a thread that has none yet: made if there are global callbacks to call, else
// null.
FASTPROF_COLD inline ThreadPrimitives* primitives_for_global_callbacks() noexcept {
  const ProcessPrimitives* process = existing_process_primitives();
  if (process == nullptr || load_relaxed(&process->enabled_callbacks) == 0) return nullptr;
  return thread_primitives();
}

// The calling thread's primitives; null if it has none and no callbacks to call. mask: the
// effective one.
FASTPROF_ALWAYS_INLINE ThreadPrimitives* dispatch_primitives(uint32_t mask) noexcept {
  ThreadPrimitives* primitives = existing_thread_primitives();
  if (FASTPROF_LIKELY(primitives != nullptr) || (mask & mask_bit::callbacks) == 0)
    return primitives;
  return primitives_for_global_callbacks();
}

// The callbacks for one RecordFunction, taken ahead of it: RecordFunction(std::move(steps)).
class StepCallbacks {
 public:
  StepCallbacks() noexcept : StepCallbacks(RecordScope::FUNCTION) {}
  explicit StepCallbacks(RecordScope scope) noexcept {
    set_.count = 0;
    set_.needs = 0;
    set_.scope = scope;
    set_.thread_id = 0;
  }
  StepCallbacks(StepCallbacks&& other) noexcept { take_step(&set_, &other.set_); }
  StepCallbacks& operator=(StepCallbacks&& other) noexcept {
    if (this != &other) {
      free_step(&set_);
      take_step(&set_, &other.set_);
    }
    return *this;
  }
  ~StepCallbacks() { free_step(&set_); }

  bool empty() const noexcept { return set_.count == 0; }
  uint32_t size() const noexcept { return set_.count; }
  RecordScope scope() const noexcept { return set_.scope; }
  uint64_t thread_id() const noexcept { return set_.thread_id; }
  bool needs_inputs() const noexcept { return (set_.needs & callback_needs::inputs) != 0; }
  bool needs_outputs() const noexcept { return (set_.needs & callback_needs::outputs) != 0; }
  bool needs_ids() const noexcept { return (set_.needs & callback_needs::ids) != 0; }

 private:
  friend struct FunctionCalls;
  friend StepCallbacks step_callbacks(RecordScope) noexcept;

  StepSet set_;
};

// The callbacks that a RecordFunction of this scope would call now on this thread; one trial for
// sampled callbacks, so use what is returned. Thread-safe.
inline StepCallbacks step_callbacks(RecordScope scope) noexcept {
  StepCallbacks steps(scope);
  const uint32_t mask = effective_mask();
  if ((mask & mask_bit::callbacks) == 0) return steps;
  ThreadPrimitives* primitives = dispatch_primitives(mask);
  if (primitives != nullptr && primitives->disabled == 0 && primitives->running == 0)
    select_step(primitives, scope, &steps.set_);
  return steps;
}

// The same, or nothing when there is none to call: one load and a branch when no callback exists.
inline std::optional<StepCallbacks> step_callbacks_unless_empty(RecordScope scope) noexcept {
  if (FASTPROF_LIKELY((load_relaxed(&state()->mask) & (mask_bit::callbacks | mask_bit::dynamic)) ==
                      0))
    return {};
  StepCallbacks steps = step_callbacks(scope);
  if (steps.empty()) return {};
  return std::optional<StepCallbacks>(std::move(steps));
}

FASTPROF_NAMESPACE_END

#include "fastprof/primitives/record_function_run.hpp"  // RecordFunction(StepCallbacks&&)
