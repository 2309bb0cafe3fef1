// SPDX-License-Identifier: Apache-2.0
// StepCallbacks: the callbacks selected for one RecordFunction.
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
#include "fastprof/recorder/process/masks.hpp"

FASTPROF_NAMESPACE_BEGIN

// Frees the memory of a set and empties it.
inline void free_step(StepSet* set) noexcept {
  if (FASTPROF_UNLIKELY(set->count > kInlineCallbacks)) std::free(set->spilled);
  set->count = 0;
}

// Moves the content of `from` into `to`, which must be empty.
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

// Appends a callback; beyond kInlineCallbacks entries it reallocates the array.
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

// Slow path of select_step: rebuilds the cache of this thread and scope.
FASTPROF_COLD inline void refresh_step_cache(ThreadPrimitives* primitives, RecordScope scope,
                                             uint64_t version) noexcept {
  // Rebuilding allocates. Setting `running` keeps a malloc hook that uses RecordFunction from
  // reading the half-built cache.
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

// Slow path of select_step: selects the callbacks of a step in which a sampled one is due.
FASTPROF_NOINLINE inline void take_sampled_step(ThreadPrimitives* primitives, StepCache* cache,
                                                StepSet* out) noexcept {
  primitives->running = 1;  // as in refresh_step_cache
  take_sampled_step(cache, &primitives->generator,
                    [out](const ActiveCallback& callback, uint8_t needs) {
                      append_step(out, callback);
                      out->needs = static_cast<uint8_t>(out->needs | needs);
                    });
  primitives->running = 0;
}

// Copies the cache's callbacks to a malloc'ed array, if there are too many for inline storage.
FASTPROF_NOINLINE inline void spill_step(const StepCache& cache, StepSet* out) noexcept {
  const uint32_t count = cache.active_count;
  out->spilled = step_cache_detail::allocate<ActiveCallback>(count);
  for (uint32_t i = 0; i < count; ++i) out->spilled[i] = cache.active[i];
  out->count = count;
}

// Selects no callbacks. primitives: the calling thread's, or null.
FASTPROF_ALWAYS_INLINE void select_nothing(const ThreadPrimitives* primitives, RecordScope scope,
                                           StepSet* out) noexcept {
  out->count = 0;
  out->needs = 0;
  out->scope = scope;
  out->thread_id = primitives != nullptr ? primitives->thread_id : 0;
}

// Selects the callbacks for the next RecordFunction of this scope on this thread. Counts as one
// trial for sampled callbacks. Requires `disabled` and `running` to be 0.
FASTPROF_ALWAYS_INLINE void select_step(ThreadPrimitives* primitives, RecordScope scope,
                                        StepSet* out) noexcept {
  StepCache* cache = &primitives->step_caches[static_cast<size_t>(scope)];
  // Acquire; partner: the release increment in callbacks.hpp.
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

// Slow path for a thread without primitives: allocates them if global callbacks are enabled, else
// returns null.
FASTPROF_COLD inline ThreadPrimitives* primitives_for_global_callbacks() noexcept {
  const ProcessPrimitives* process = existing_process_primitives();
  if (process == nullptr || load_relaxed(&process->enabled_callbacks) == 0) return nullptr;
  return thread_primitives();
}

// Returns the calling thread's primitives; null if it has none and no callbacks to call. mask: the
// result of effective_mask().
FASTPROF_ALWAYS_INLINE ThreadPrimitives* dispatch_primitives(uint32_t mask) noexcept {
  ThreadPrimitives* primitives = existing_thread_primitives();
  if (FASTPROF_LIKELY(primitives != nullptr) || (mask & mask_bit::callbacks) == 0)
    return primitives;
  return primitives_for_global_callbacks();
}

// Callbacks selected ahead of a RecordFunction; pass to RecordFunction(std::move(steps)).
class StepCallbacks {
 public:
  StepCallbacks() noexcept : StepCallbacks(RecordScope::FUNCTION) {}
  explicit StepCallbacks(RecordScope scope) noexcept {
    set_.spilled = nullptr;
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

// Selects the callbacks that a RecordFunction of this scope would call now on this thread. Counts
// as one trial for sampled callbacks, so use the result. Any thread; the result is the calling
// thread's.
inline StepCallbacks step_callbacks(RecordScope scope) noexcept {
  StepCallbacks steps(scope);
  const uint32_t mask = effective_mask(state());
  if ((mask & mask_bit::callbacks) == 0) return steps;
  ThreadPrimitives* primitives = dispatch_primitives(mask);
  if (primitives != nullptr && primitives->disabled == 0 && primitives->running == 0)
    select_step(primitives, scope, &steps.set_);
  return steps;
}

// As step_callbacks, or an empty optional if there are none. One load and one branch if no callback
// is registered.
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
