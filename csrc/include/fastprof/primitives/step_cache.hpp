// SPDX-License-Identifier: Apache-2.0
// StepCache: per thread and scope, the callbacks that a RecordFunction calls. Rebuilt when
// callbacks change.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/primitives/callback_list.hpp"
#include "fastprof/primitives/sampling.hpp"
#include "fastprof/primitives/step_set.hpp"

FASTPROF_NAMESPACE_BEGIN

// A callback that matches the scope, and its sampling countdown.
struct StepCandidate {
  ActiveCallback callback;
  double probability;
  uint64_t trials_left;  // of a sampled callback: >= 1, as of the start of the cache's period
  uint8_t needs;
  uint8_t sampled;
};

// Cache for one scope of one thread. Own thread only. All zeros is a valid, stale cache. The layout
// is ABI.
struct StepCache {
  uint64_t version_plus_1;  // State::callbacks_version it was built for, plus 1; 0: stale
  uint64_t countdown;       // calls up to and including the next sampled callback; 0: none sampled
  uint64_t period;          // initial value of the current countdown
  uint32_t active_count;    // callbacks called every time (probability 1)
  uint8_t active_needs;
  ActiveCallback* active;  // inline_active, or malloc'ed if there are more than kInlineCallbacks
  ActiveCallback inline_active[kInlineCallbacks];
  StepCandidate* candidates;  // all that match, in registration order; null unless some are sampled
  uint32_t candidate_count;
};

// Frees the cache's memory and marks it stale.
inline void clear_step_cache(StepCache* cache) noexcept {
  if (cache->active != cache->inline_active) std::free(cache->active);
  std::free(cache->candidates);
  cache->active = cache->inline_active;
  cache->candidates = nullptr;
  cache->active_count = cache->candidate_count = 0;
  cache->active_needs = 0;
  cache->countdown = cache->period = 0;
  cache->version_plus_1 = 0;
}

namespace step_cache_detail {

// Allocates an uninitialised array with malloc. Terminates the program if memory is exhausted: the
// callers are noexcept.
template <class Type>
inline Type* allocate(uint32_t count) noexcept {
  void* memory = std::malloc(count * sizeof(Type));
  if (memory == nullptr) raise<Error>("out of memory for RecordFunction callbacks");
  return static_cast<Type*>(memory);
}

// Calls f for the enabled entries of both lists that match the scope, by ascending handle: this is
// the order of registration across global and thread-local callbacks.
template <class Callable>
inline void for_each_candidate(const CallbackList& a, const CallbackList& b, unsigned scope,
                               Callable f) {
  const CallbackEntry *x = a.begin(), *x_end = a.end(), *y = b.begin(), *y_end = b.end();
  while (x != x_end || y != y_end) {
    const CallbackEntry* next = y == y_end || (x != x_end && x->handle <= y->handle) ? x++ : y++;
    if (next->enabled && ((next->scopes >> scope) & 1u) && next->probability > 0.0) f(*next);
  }
}

// Returns the smallest countdown of the sampled callbacks; 0 if none are sampled.
inline uint64_t shortest(const StepCache& cache) noexcept {
  uint64_t least = 0;
  for (uint32_t i = 0; i < cache.candidate_count; ++i) {
    const StepCandidate& candidate = cache.candidates[i];
    if (candidate.sampled && (least == 0 || candidate.trials_left < least))
      least = candidate.trials_left;
  }
  return least;
}

}  // namespace step_cache_detail

// Rebuilds the cache. Each sampled callback draws a new countdown.
inline void build_step_cache(StepCache* cache, const CallbackList& global,
                             const CallbackList& local, unsigned scope,
                             SamplingGenerator* generator, uint64_t version) noexcept {
  using namespace step_cache_detail;
  clear_step_cache(cache);
  uint32_t matching = 0, sampled = 0;
  for_each_candidate(global, local, scope, [&](const CallbackEntry& entry) {
    ++matching;
    if (entry.probability < 1.0) ++sampled;
  });
  const uint32_t always = matching - sampled;
  if (always > kInlineCallbacks) cache->active = allocate<ActiveCallback>(always);
  if (sampled != 0) cache->candidates = allocate<StepCandidate>(matching);
  for_each_candidate(global, local, scope, [&](const CallbackEntry& entry) {
    const ActiveCallback callback{reinterpret_cast<AnyStartCallback>(entry.start), entry.end,
                                  entry.invokers, nullptr};
    const bool is_sampled = entry.probability < 1.0;
    if (!is_sampled) {
      cache->active[cache->active_count++] = callback;
      cache->active_needs = static_cast<uint8_t>(cache->active_needs | entry.needs);
    }
    if (sampled != 0) {
      const uint64_t trials = is_sampled ? generator->trials(entry.probability) : 0;
      new (&cache->candidates[cache->candidate_count++])
          StepCandidate{callback, entry.probability, trials, entry.needs, is_sampled};
    }
  });
  cache->period = cache->countdown = shortest(*cache);
  cache->version_plus_1 = version + 1;
}

// Called when the countdown reaches 0. Calls f(callback, needs) for the callbacks of this step in
// registration order, including the sampled ones that are due, and starts the next countdown.
template <class Callable>
inline void take_sampled_step(StepCache* cache, SamplingGenerator* generator, Callable f) noexcept {
  for (uint32_t i = 0; i < cache->candidate_count; ++i) {
    StepCandidate& candidate = cache->candidates[i];
    if (candidate.sampled) {
      candidate.trials_left -= cache->period;
      if (candidate.trials_left != 0) continue;
      candidate.trials_left = generator->trials(candidate.probability);
    }
    f(candidate.callback, candidate.needs);
  }
  cache->period = cache->countdown = step_cache_detail::shortest(*cache);
}

FASTPROF_NAMESPACE_END
