// SPDX-License-Identifier: Apache-2.0
// RecordFunctionCallback: what an observer registers. ObserverContext: its data for one call.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/primitives/step_set.hpp"

FASTPROF_NAMESPACE_BEGIN

// Data that a start callback returns for the end callback of the same RecordFunction. Deleted after
// the end callback, on the thread that ends it. For speed, give the derived class its own operator
// new.
struct FASTPROF_VISIBLE ObserverContext {
  FASTPROF_HIDDEN virtual ~ObserverContext() = default;

 protected:
  FASTPROF_HIDDEN ObserverContext() = default;
};

// Plain function pointers, called on the thread that begins or ends the RecordFunction. Exceptions
// they throw are caught and reported once per callback on stderr. RecordFunctions and ranges begun
// inside a callback are recorded, but call no callbacks.
using StartCallback = std::unique_ptr<ObserverContext> (*)(const RecordFunction&);
// Identifies a registration. Handles are unique and increase over the life of the process.
using CallbackHandle = uint64_t;
constexpr CallbackHandle kInvalidCallbackHandle = 0;

constexpr uint16_t kAllRecordScopes = (1u << kNumRecordScopes) - 1;

// An observer: a start and an end callback (either may be null) and its options. A builder:
//   add_global_callback(RecordFunctionCallback(start, end).needs_inputs(true).scopes({...}));
class RecordFunctionCallback {
 public:
  explicit RecordFunctionCallback(StartCallback on_start, EndCallback on_end = nullptr) noexcept
      : start_(on_start), end_(on_end) {}

  // Request the inputs: RecordFunction::inputs() returns them during the start callback.
  RecordFunctionCallback& needs_inputs(bool wanted) noexcept {
    return need(callback_needs::inputs, wanted);
  }
  // Request the outputs: RecordFunction::outputs() returns them during the end callback.
  RecordFunctionCallback& needs_outputs(bool wanted) noexcept {
    return need(callback_needs::outputs, wanted);
  }
  // Request ids: RecordFunction::handle() is set.
  RecordFunctionCallback& needs_ids(bool wanted) noexcept {
    return need(callback_needs::ids, wanted);
  }
  // Fraction of the matching RecordFunctions to observe, in [0, 1]; raises ValueError otherwise. 0:
  // none. The start and end callbacks are called for the same ones.
  RecordFunctionCallback& sampling_probability(double probability) {
    if (!(probability >= 0.0 && probability <= 1.0))
      raise<ValueError>("sampling_probability must be in [0, 1]");
    probability_ = probability;
    return *this;
  }
  // Restricts the observer to these scopes; an empty list means all. Raises ValueError if a number
  // is not a RecordScope.
  RecordFunctionCallback& scopes(std::initializer_list<RecordScope> wanted) {
    return scopes(wanted.begin(), wanted.end());
  }
  template <class Iterator>
  RecordFunctionCallback& scopes(Iterator first, Iterator last) {
    uint32_t bits = 0;
    for (; first != last; ++first) {
      const auto scope = static_cast<unsigned>(*first);
      if (scope >= kNumRecordScopes) raise<ValueError>("scopes contains an unknown RecordScope");
      bits |= 1u << scope;
    }
    scopes_ = bits != 0 ? static_cast<uint16_t>(bits) : kAllRecordScopes;
    return *this;
  }

  StartCallback start() const noexcept { return start_; }
  EndCallback end() const noexcept { return end_; }
  bool needs_inputs() const noexcept { return (needs_ & callback_needs::inputs) != 0; }
  bool needs_outputs() const noexcept { return (needs_ & callback_needs::outputs) != 0; }
  bool needs_ids() const noexcept { return (needs_ & callback_needs::ids) != 0; }
  double sampling_probability() const noexcept { return probability_; }
  bool check_scope(RecordScope scope) const noexcept {
    return (scopes_ >> static_cast<unsigned>(scope)) & 1u;
  }
  uint8_t needs() const noexcept { return needs_; }         // callback_needs bits
  uint16_t scope_bits() const noexcept { return scopes_; }  // 1 << RecordScope

 private:
  RecordFunctionCallback& need(uint8_t bit, bool wanted) noexcept {
    needs_ = static_cast<uint8_t>(wanted ? needs_ | bit : needs_ & ~bit);
    return *this;
  }

  StartCallback start_;
  EndCallback end_;
  double probability_ = 1.0;
  uint16_t scopes_ = kAllRecordScopes;
  uint8_t needs_ = 0;
};

FASTPROF_NAMESPACE_END
