// SPDX-License-Identifier: Apache-2.0
// The out-of-line half of RecordFunction: choosing, starting and ending callbacks.
#pragma once

#include "fastprof/primitives/record_function.hpp"

FASTPROF_NAMESPACE_BEGIN

inline void RecordFunction::initialise() noexcept {
  name_ = "";
  name_bytes_ = 0;
  inputs_ = {};
  kwinputs_ = {};
  outputs_ = nullptr;
  sequence_number_ = -1;
  forward_thread_id_ = 0;
  handle_ = 0;
  debug_handle_ = -1;
  node_id_ = fastprof::default_node_id();
  overload_name_ = "";
}

void RecordFunction::activate(RecordScope scope, uint32_t category) noexcept {
  const uint32_t mask = load_relaxed(&state()->mask);
  const ThreadPrimitives* existing = existing_thread_primitives();
  if (existing != nullptr && (existing->blocked & dispatch_block::disabled) != 0) return;
  steps_.count = 0;
  if ((mask & mask_bit::callbacks) != 0) {
    if (ThreadPrimitives* primitives = dispatching_primitives())
      select_step(primitives, scope, &steps_);
  }
  // The recorder's answer counts for the whole life: a session that starts in between misses it.
  const bool recorder =
      (mask & (category | mask_bit::special) & ~mask_bit::callbacks) != 0 && recording(category);
  if (steps_.count == 0) {
    if (!recorder) return;
    steps_.needs = 0;
    steps_.scope = scope;
    steps_.thread_id = existing != nullptr ? existing->thread_id : 0;
  }
  initialise();
  flags_ = flag_active | (recorder ? flag_recorder : 0);
}

void RecordFunction::activate_with(StepCallbacks&& steps) noexcept {
  const RecordScope scope = steps.scope();
  const bool enabled = is_record_function_enabled();
  const bool recorder = enabled && recording(scope_category(scope));
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
  initialise();
  flags_ = flag_active | (recorder ? flag_recorder : 0);
}

inline void RecordFunction::copy_name(FunctionName name) noexcept {
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
  flags_ |= flag_owned_name;
}

void RecordFunction::begin(FunctionName name, const Site* site, Span<const Value> inputs,
                           Span<const NamedValue> kwinputs, int64_t sequence_number) noexcept {
  if ((flags_ & flag_begun) != 0) return;
  flags_ |= flag_begun;
  if (FASTPROF_LIKELY(name.borrowed_)) {
    name_ = name.data_;
    name_bytes_ = name.size_;
  } else {
    copy_name(name);
  }
  sequence_number_ = sequence_number;
  if (steps_.count != 0) {
    inputs_ = inputs;
    kwinputs_ = kwinputs;
    run_start_callbacks();
  }
  // Last, so that the callbacks' own time is outside the range.
  if ((flags_ & flag_recorder) != 0) {
    if (site == nullptr) site = intern_site(scope_site(steps_.scope), this->name());
    range_ = begin_range(*site);
    flags_ |= flag_range;
  }
}

inline void RecordFunction::run_start_callbacks() noexcept {
  ThreadPrimitives* primitives = existing_thread_primitives();
  uint32_t former = dispatch_block::running;
  if (FASTPROF_LIKELY(primitives != nullptr)) {
    former = primitives->blocked;
    primitives->blocked = former | dispatch_block::running;
    if ((steps_.needs & callback_needs::ids) != 0) handle_ = next_record_handle(primitives);
  }
  if ((steps_.needs & callback_needs::inputs) != 0) flags_ |= flag_inputs;
  ActiveCallback* const last = steps_.end();
  for (ActiveCallback* callback = steps_.begin(); callback != last; ++callback) {
#if FASTPROF_EXCEPTIONS
    callback->context = callback->start != nullptr ? call_start(callback->start, *this) : nullptr;
#else
    callback->context =
        callback->start != nullptr ? callback->invokers->start(callback->start, *this) : nullptr;
#endif
  }
  flags_ &= ~flag_inputs;
  if ((former & dispatch_block::running) == 0) primitives->blocked &= ~dispatch_block::running;
}

inline void RecordFunction::run_end_callbacks() noexcept {
  ThreadPrimitives* primitives = existing_thread_primitives();
  uint32_t former = dispatch_block::running;
  if (FASTPROF_LIKELY(primitives != nullptr)) {
    former = primitives->blocked;
    primitives->blocked = former | dispatch_block::running;
  }
  if (outputs_ != nullptr) flags_ |= flag_outputs;
  ActiveCallback* const last = steps_.end();
  for (ActiveCallback* callback = steps_.begin(); callback != last; ++callback) {
#if FASTPROF_EXCEPTIONS
    if (callback->end != nullptr) call_end(callback->end, *this, callback->context);
#else
    if (callback->end != nullptr) callback->invokers->end(callback->end, *this, callback->context);
#endif
    delete callback->context;
  }
  flags_ &= ~flag_outputs;
  if ((former & dispatch_block::running) == 0) primitives->blocked &= ~dispatch_block::running;
}

void RecordFunction::finish_begun() noexcept {
  flags_ |= flag_ended;
  if ((flags_ & flag_range) != 0) end_range(range_);
  if (steps_.count != 0) run_end_callbacks();
}

void RecordFunction::finish() noexcept {
  end();
  free_step(&steps_);
  free_outputs();
  if ((flags_ & flag_owned_name) != 0) std::free(const_cast<char*>(name_));
  flags_ = 0;
}

inline void RecordFunction::free_outputs() noexcept {
  if (outputs_ == nullptr) return;
  outputs_->~Value();
  std::free(outputs_);
  outputs_ = nullptr;
}

FASTPROF_NAMESPACE_END
