// SPDX-License-Identifier: Apache-2.0
// The way of a FASTPROF_RANGE when callbacks are registered: a RecordFunction made from its site.
#pragma once

#include <cstdlib>
#include <new>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/record_function.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr uint32_t kMaxStoredRanges = 64;

// Begins a RecordFunction with the site's name and scope, callbacks and recorder both as they
// listen. Returns its token for dispatch_end, or null when nothing listens (or memory is short).
// noexcept.
FASTPROF_NOINLINE inline void* dispatch_begin(const Site& site) noexcept {
  ThreadPrimitives* primitives = existing_thread_primitives();
  void* memory = primitives != nullptr ? primitives->free_storage : nullptr;
  if (FASTPROF_LIKELY(memory != nullptr)) {
    primitives->free_storage = primitives->free_storage->next;
    --primitives->storage_count;
  } else {
    memory = std::malloc(sizeof(RecordFunction));
    if (memory == nullptr) return nullptr;
  }
  auto* function = new (memory) RecordFunction(site);
  function->before(site);
  return function;
}

// Ends what dispatch_begin began; any thread. Null is nothing.
FASTPROF_NOINLINE inline void dispatch_end(void* token) noexcept {
  if (token == nullptr) return;
  static_cast<RecordFunction*>(token)->~RecordFunction();
  ThreadPrimitives* primitives = existing_thread_primitives();
  if (primitives == nullptr || primitives->storage_count >= kMaxStoredRanges) {
    std::free(token);
    return;
  }
  primitives->free_storage = new (token) RangeStorage{primitives->free_storage};
  ++primitives->storage_count;
}

FASTPROF_NAMESPACE_END
