// SPDX-License-Identifier: Apache-2.0
// The path of FASTPROF_RANGE while callbacks are registered: makes a RecordFunction from its site.
#pragma once

#include <cstdlib>
#include <new>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/record_function_run.hpp"
#include "fastprof/primitives/scoped_record_function.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr uint32_t kMaxStoredRanges = 64;

namespace dispatch_detail {

// Takes storage for a RecordFunction from the thread's free list or malloc; null if memory is
// exhausted.
inline RecordFunctionStorage* take_storage() noexcept {
  ThreadPrimitives* primitives = existing_thread_primitives();
  if (primitives == nullptr || primitives->free_storage == nullptr)
    return static_cast<RecordFunctionStorage*>(std::malloc(sizeof(RecordFunctionStorage)));
  RangeStorage* first = primitives->free_storage;
  primitives->free_storage = first->next;
  --primitives->storage_count;
  return reinterpret_cast<RecordFunctionStorage*>(first);
}

// Returns storage to the calling thread's free list, or frees it if the list is full.
inline void give_storage(void* storage) noexcept {
  ThreadPrimitives* primitives = existing_thread_primitives();
  if (primitives == nullptr || primitives->storage_count >= kMaxStoredRanges) {
    std::free(storage);
    return;
  }
  primitives->free_storage = new (storage) RangeStorage{primitives->free_storage};
  ++primitives->storage_count;
}

}  // namespace dispatch_detail

// Begins a RecordFunction with the site's name and scope, which calls callbacks and records. args:
// site.arg_count words, passed to callbacks as keyword inputs, or null. Returns a token for
// dispatch_end, or null if nothing observes or memory is exhausted. Never throws.
FASTPROF_NOINLINE inline void* dispatch_begin(const Site& site, const uint64_t* args) noexcept {
  RecordFunctionStorage* storage = dispatch_detail::take_storage();
  if (storage == nullptr) return nullptr;
  RecordFunction* function = nullptr;
  if (args == nullptr) {
    function = FunctionCalls::open(nullptr, storage->bytes, &site);
  } else {
    auto* made = new (storage->bytes) RecordFunction();
    FunctionCalls::activate(nullptr, made, site.scope, site.mask);
    if (made->is_active()) {
      function = made;
      FunctionCalls::start_with_args(*made, site, args);
    }
  }
  if (function == nullptr) dispatch_detail::give_storage(storage);
  return function;
}

// Ends what dispatch_begin began. Any thread. A null token is ignored.
FASTPROF_NOINLINE inline void dispatch_end(void* token) noexcept {
  if (token == nullptr) return;
  FunctionCalls::close(static_cast<RecordFunction*>(token));
  dispatch_detail::give_storage(token);
}

FASTPROF_NAMESPACE_END
