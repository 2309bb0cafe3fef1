// SPDX-License-Identifier: Apache-2.0
// The way of a FASTPROF_RANGE when callbacks are registered: a RecordFunction made from its site.
#pragma once

#include <cstdlib>
#include <new>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/record_function_run.hpp"
#include "fastprof/primitives/scoped_record_function.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr uint32_t kMaxStoredRanges = 64;

namespace dispatch_detail {

inline RecordFunctionStorage* take_storage() noexcept {
  ThreadPrimitives* primitives = existing_thread_primitives();
  if (primitives == nullptr || primitives->free_storage == nullptr)
    return static_cast<RecordFunctionStorage*>(std::malloc(sizeof(RecordFunctionStorage)));
  RangeStorage* first = primitives->free_storage;
  primitives->free_storage = first->next;
  --primitives->storage_count;
  return reinterpret_cast<RecordFunctionStorage*>(first);
}

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

// args: site.arg_count words, or null; they become keyword inputs.
// Begins a RecordFunction with the site's name and scope, for callbacks and recorder as they
// listen. Returns its token for dispatch_end, or null when nothing listens or memory is short.
// Never throws.
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

// Ends what dispatch_begin began; any thread. Null is nothing.
FASTPROF_NOINLINE inline void dispatch_end(void* token) noexcept {
  if (token == nullptr) return;
  FunctionCalls::close(static_cast<RecordFunction*>(token));
  dispatch_detail::give_storage(token);
}

FASTPROF_NAMESPACE_END
