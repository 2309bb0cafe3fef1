// SPDX-License-Identifier: Apache-2.0
// ScopedRecordFunction: the RAII object behind the macros. Constructs a RecordFunction only if
// needed.
#pragma once

#include <new>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/record_function.hpp"

FASTPROF_NAMESPACE_BEGIN

// Uninitialised storage for a RecordFunction.
struct RecordFunctionStorage {
  alignas(RecordFunction) unsigned char bytes[sizeof(RecordFunction)];
};

// When the start callbacks run: in the constructor, or once the options are applied.
enum class Begin { now, with_options };

// Pointer to a RecordFunction in separate storage, or null. The pointer never escapes, so the
// compiler keeps it in a register, and a disabled scope costs one load and one branch.
class ScopedRecordFunction {
 public:
  FASTPROF_ALWAYS_INLINE ScopedRecordFunction(RecordFunctionStorage& storage, const Site& site,
                                              Begin begin) noexcept
      : function_(nullptr) {
    if (FASTPROF_UNLIKELY((load_relaxed(&state()->mask) & (site.mask | mask_bit::special)) != 0))
      function_ = begin == Begin::now ? open(storage, site) : activate(storage, site);
  }
  FASTPROF_ALWAYS_INLINE ScopedRecordFunction(RecordFunctionStorage& storage,
                                              RecordScope scope) noexcept
      : function_(nullptr) {
    if (FASTPROF_UNLIKELY(
            (load_relaxed(&state()->mask) & (scope_category(scope) | mask_bit::special)) != 0))
      function_ = activate(storage, scope_site(scope));
  }
  FASTPROF_ALWAYS_INLINE ~ScopedRecordFunction() {
    if (FASTPROF_UNLIKELY(function_ != nullptr)) close(function_);
  }
  ScopedRecordFunction(const ScopedRecordFunction&) = delete;
  ScopedRecordFunction& operator=(const ScopedRecordFunction&) = delete;

  // The active RecordFunction, or null if nothing observes.
  RecordFunction* get() const noexcept { return function_; }

 private:
  // Activates and begins with the site's name in one call; null if nothing observes.
  FASTPROF_ALWAYS_INLINE static RecordFunction* open(RecordFunctionStorage& storage,
                                                     const Site& site) noexcept {
    State* s = state();
    return s->functions->open_function(s, storage.bytes, &site);
  }
  FASTPROF_NOINLINE static RecordFunction* activate(RecordFunctionStorage& storage,
                                                    const Site& site) noexcept {
    auto* function = new (storage.bytes) RecordFunction(site);
    return function->is_active() ? function : nullptr;
  }
  static void close(RecordFunction* function) noexcept {
    state()->functions->close_function(function);
  }

  RecordFunction* function_;
};

FASTPROF_NAMESPACE_END
