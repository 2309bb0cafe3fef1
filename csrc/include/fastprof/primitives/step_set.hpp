// SPDX-License-Identifier: Apache-2.0
// StepSet: the callbacks of one RecordFunction, as plain data inside it.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/base/scope.hpp"

FASTPROF_NAMESPACE_BEGIN

class RecordFunction;
struct CallbackInvokers;
struct ObserverContext;

// A StartCallback (observer.hpp) with its type erased: that type needs <memory>, which an annotated
// library should not have to compile.
using AnyStartCallback = void (*)();
using EndCallback = void (*)(const RecordFunction&, ObserverContext*);

// Bits for the data that an observer needs.
namespace callback_needs {
constexpr uint8_t inputs = 1;
constexpr uint8_t outputs = 2;
constexpr uint8_t ids = 4;
}  // namespace callback_needs

// Callbacks stored without a heap allocation. More are possible, but slower.
constexpr uint32_t kInlineCallbacks = 4;

// One callback of one RecordFunction.
struct ActiveCallback {
  AnyStartCallback start;
  EndCallback end;
  const CallbackInvokers* invokers;
  ObserverContext* context;  // owned; set between start and end
};

// The selected callbacks in registration order. Only the first `count` entries of `inlined` are
// written. The layout is ABI.
struct StepSet {
  uint32_t count;
  uint8_t needs;  // OR of their callback_needs
  RecordScope scope;
  uint16_t reserved;
  uint64_t thread_id;
  ActiveCallback* spilled;  // malloc'ed array if count > kInlineCallbacks
  ActiveCallback inlined[kInlineCallbacks];

  ActiveCallback* begin() noexcept { return count <= kInlineCallbacks ? inlined : spilled; }
  ActiveCallback* end() noexcept { return begin() + count; }
};

FASTPROF_NAMESPACE_END
