// SPDX-License-Identifier: Apache-2.0
// The out-of-line half of RecordFunction: choosing, starting and ending callbacks.
#pragma once

#include "fastprof/primitives/record_function.hpp"
#include "fastprof/recorder/intern.hpp"
#include "fastprof/recorder/masks.hpp"
#include "fastprof/recorder/range.hpp"

FASTPROF_NAMESPACE_BEGIN

// An argument word of a site as a Value; a pointer as its number.
inline Value arg_value(ArgType type, uint64_t word) noexcept {
  switch (type) {
    case ArgType::int64:
      return Value(static_cast<int64_t>(word));
    case ArgType::uint64:
    case ArgType::pointer:
      return Value(word);
    case ArgType::float64: {
      double number;
      std::memcpy(&number, &word, sizeof number);
      return Value(number);
    }
    case ArgType::boolean:
      return Value(word != 0);
    case ArgType::string:
      return Value(reinterpret_cast<const char*>(static_cast<uintptr_t>(word)));
  }
  return Value();
}

FASTPROF_ALWAYS_INLINE void RecordFunction::initialise(bool recorder) noexcept {
  flags_ = Flags{};
  flags_.active = true;
  flags_.recorder = recorder;
}

FASTPROF_ALWAYS_INLINE void RecordFunction::activate_inline(RecordScope scope,
                                                            uint32_t category) noexcept {
  const uint32_t mask = effective_mask();
  const ThreadPrimitives* existing = existing_thread_primitives();
  if (existing != nullptr && existing->disabled != 0) return;
  steps_.count = 0;
  if ((mask & mask_bit::callbacks) != 0) {
    if (ThreadPrimitives* primitives = dispatching_primitives())
      select_step(primitives, scope, &steps_);
  }
  // The recorder's answer counts for the whole life: a session that starts in between misses it.
  const bool recorder = (mask & (category | mask_bit::local)) != 0 && recording(category);
  if (steps_.count == 0) {
    if (!recorder) return;
    steps_.needs = 0;
    steps_.scope = scope;
    steps_.thread_id = existing != nullptr ? existing->thread_id : 0;
  }
  initialise(recorder);
  if (FASTPROF_UNLIKELY(steps_.count > kInlineCallbacks)) flags_.owns = true;
}

void RecordFunction::activate(RecordScope scope, uint32_t category) noexcept {
  activate_inline(scope, category);
}

void RecordFunction::activate_with(StepCallbacks&& steps) noexcept {
  const RecordScope scope = steps.scope();
  const bool recorder = recording(scope_category(scope)) && is_record_function_enabled();
  if (steps.empty() && !recorder) return;
  steps_.count = steps.set_.count;
  steps_.needs = steps.set_.needs;
  steps_.scope = scope;
  steps_.thread_id = steps.set_.thread_id;
  if (steps_.count > kInlineCallbacks)
    steps_.spilled = steps.set_.spilled;
  else
    for (uint32_t i = 0; i < steps_.count; ++i) steps_.inlined[i] = steps.set_.inlined[i];
  steps.set_.count = 0;
  initialise(recorder);
  if (steps_.count > kInlineCallbacks) flags_.owns = true;
}

void RecordFunction::copy_name(FunctionName name) noexcept {
  auto* copy = static_cast<char*>(std::malloc(name.size_ + 1));
  if (copy == nullptr) {
    name_ = "(out of memory for the name)";
    name_bytes_ = FunctionName::kUnknownSize;
    return;
  }
  if (name.size_ != 0) std::memcpy(copy, name.data_, name.size_);
  copy[name.size_] = '\0';
  name_ = copy;
  name_bytes_ = name.size_;
  flags_.owned_name = flags_.owns = true;
}

// Runs `call` for each callback of the step, with nested dispatch off.
template <class Call>
FASTPROF_ALWAYS_INLINE void RecordFunction::run_callbacks(ThreadPrimitives* primitives,
                                                          uint8_t phase, Call call) noexcept {
  // Begun or ended inside a callback, or at the thread's very end: leave the mark as it is.
  const bool outermost = primitives != nullptr && primitives->running == 0;
  if (FASTPROF_LIKELY(outermost)) primitives->running = 1;
  flags_.phase = phase;
  ActiveCallback* const last = steps_.end();
  for (ActiveCallback* callback = steps_.begin(); callback != last; ++callback) call(callback);
  flags_.phase = 0;
  if (FASTPROF_LIKELY(outermost)) primitives->running = 0;
}

FASTPROF_ALWAYS_INLINE void RecordFunction::begin_inline(const Site* site,
                                                         const uint64_t* args) noexcept {
  flags_.begun = true;
  if (steps_.count != 0) {
    ThreadPrimitives* primitives = existing_thread_primitives();
    if ((steps_.needs & callback_needs::ids) != 0 && primitives != nullptr)
      set_handle(next_record_handle(primitives));
    run_callbacks(primitives, phase_start, [this](ActiveCallback* callback) {
      callback->context = nullptr;
      if (callback->start == nullptr) return;
#if FASTPROF_EXCEPTIONS
      callback->context = call_start(callback->start, *this);
#else
      callback->context = callback->invokers->start(callback->start, *this);
#endif
    });
  }
  // Last, so that the callbacks' own time is outside the range.
  if (flags_.recorder) {
    if (site == nullptr) site = intern_site(scope_site(steps_.scope), name());
    static constexpr uint64_t kNoArgs[kMaxArgs] = {};
    range_ = begin_range(*site, args != nullptr || site->arg_count == 0 ? args : kNoArgs);
    flags_.range_open = true;
  }
}

void RecordFunction::begin(const Site* site) noexcept {
  begin_inline(site, nullptr);
}

// The typed words of a FASTPROF_RANGE_ARGS as keyword inputs.
void RecordFunction::begin_with_args(const Site& site, const uint64_t* args) noexcept {
  NamedValue values[kMaxArgs];
  const size_t count = site.arg_count < kMaxArgs ? site.arg_count : kMaxArgs;
  for (size_t i = 0; i < count; ++i)
    values[i] = {site.arg_names[i], arg_value(site.arg_types[i], args[i])};
  kwinputs_ = Span<const NamedValue>(values, count);
  flags_.has_kwinputs = true;
  begin_inline(&site, args);
}

void RecordFunction::end_begun() noexcept {
  flags_.ended = true;
  if (flags_.range_open) end_range(range_);
  if (steps_.count == 0) return;
  run_callbacks(existing_thread_primitives(), phase_end, [this](ActiveCallback* callback) {
    if (callback->end != nullptr) {
#if FASTPROF_EXCEPTIONS
      call_end(callback->end, *this, callback->context);
#else
      callback->invokers->end(callback->end, *this, callback->context);
#endif
    }
    if (FASTPROF_UNLIKELY(callback->context != nullptr)) delete callback->context;
  });
}

void RecordFunction::free_owned() noexcept {
  free_step(&steps_);
  if (flags_.owned_name) std::free(const_cast<char*>(name_));
  if (!flags_.has_outputs) return;
  outputs_->~Value();
  std::free(outputs_);
}

FASTPROF_NAMESPACE_END
