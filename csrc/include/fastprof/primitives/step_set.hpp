// SPDX-License-Identifier: Apache-2.0
// StepSet: the callbacks that one RecordFunction calls, as it holds them.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/base/scope.hpp"

FASTPROF_NAMESPACE_BEGIN

class RecordFunction;
struct CallbackInvokers;
struct ObserverContext;

// A StartCallback (observer.hpp) whatever it returns: that type needs <memory>, which an annotated
// library need not compile.
using AnyStartCallback = void (*)();
using EndCallback = void (*)(const RecordFunction&, ObserverContext*);

// Bits of what an observer asks for.
namespace callback_needs {
constexpr uint8_t inputs = 1;
constexpr uint8_t outputs = 2;
constexpr uint8_t ids = 4;
}  // namespace callback_needs

// Callbacks held without a heap allocation; more work, but slower.
constexpr uint32_t kInlineCallbacks = 4;

// One callback of one RecordFunction.
struct ActiveCallback {
  AnyStartCallback start;
  EndCallback end;
  const CallbackInvokers* invokers;
  ObserverContext* context;  // between start and end, owned
};

// The plain data of a step: callbacks in registration order. Only the first `count` entries of
// `inlined` are ever written. The layout is ABI.
struct StepSet {
  uint32_t count;
  uint8_t needs;  // callback_needs of all of them
  RecordScope scope;
  uint16_t reserved;
  uint64_t thread_id;
  ActiveCallback* spilled;  // malloc'ed array when count > kInlineCallbacks
  ActiveCallback inlined[kInlineCallbacks];

  ActiveCallback* begin() noexcept { return count <= kInlineCallbacks ? inlined : spilled; }
  ActiveCallback* end() noexcept { return begin() + count; }
};

FASTPROF_NAMESPACE_END
