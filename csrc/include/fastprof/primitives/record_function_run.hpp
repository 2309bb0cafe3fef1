// SPDX-License-Identifier: Apache-2.0
// The out-of-line half of RecordFunction: choosing, starting and ending callbacks.
#pragma once

#include "fastprof/primitives/function_details.hpp"
#include "fastprof/primitives/record_function.hpp"
#include "fastprof/recorder/abi_layout.hpp"
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

// Keeps nested RecordFunctions from calling callbacks. Inside a callback, and at the very end of a
// thread, it leaves the mark as it is.
class RunningMark {
 public:
  FASTPROF_ALWAYS_INLINE explicit RunningMark(ThreadPrimitives* primitives) noexcept
      : primitives_(primitives != nullptr && primitives->running == 0 ? primitives : nullptr) {
    if (FASTPROF_LIKELY(primitives_ != nullptr)) primitives_->running = 1;
  }
  FASTPROF_ALWAYS_INLINE ~RunningMark() {
    if (FASTPROF_LIKELY(primitives_ != nullptr)) primitives_->running = 0;
  }
  RunningMark(const RunningMark&) = delete;
  RunningMark& operator=(const RunningMark&) = delete;

 private:
  ThreadPrimitives* primitives_;
};

FASTPROF_ALWAYS_INLINE ObserverContext* start_one(const ActiveCallback& callback,
                                                  const RecordFunction& function) noexcept {
  if (callback.start == nullptr) return nullptr;
#if FASTPROF_EXCEPTIONS
  return call_start(callback.start, function);
#else
  return callback.invokers->start(callback.start, function);
#endif
}

// Owns the context.
FASTPROF_ALWAYS_INLINE void end_one(const ActiveCallback& callback,
                                    const RecordFunction& function) noexcept {
  if (callback.end != nullptr) {
#if FASTPROF_EXCEPTIONS
    call_end(callback.end, function, callback.context);
#else
    callback.invokers->end(callback.end, function, callback.context);
#endif
  }
  if (FASTPROF_UNLIKELY(callback.context != nullptr)) delete callback.context;
}

FASTPROF_ALWAYS_INLINE void RecordFunction::set_chosen(bool recorder) noexcept {
  stage_ = Stage::chosen;
  flags_ = Flags{};
  flags_.recorder = recorder ? Recorder::name : Recorder::none;
  if (FASTPROF_UNLIKELY(steps_.count > kInlineCallbacks)) flags_.owns = true;
}

// Chooses the callbacks and asks the recorder; false: nothing listens. *primitives is the calling
// thread's, or null if it has none.
FASTPROF_ALWAYS_INLINE bool RecordFunction::choose(RecordScope scope, uint32_t category,
                                                   ThreadPrimitives** primitives) noexcept {
  const uint32_t mask = effective_mask();
  ThreadPrimitives* thread = *primitives = dispatch_primitives(mask);
  if (thread != nullptr && FASTPROF_UNLIKELY(thread->disabled != 0)) return false;
  if ((mask & mask_bit::callbacks) != 0 && thread != nullptr && thread->running == 0)
    select_step(thread, scope, &steps_);
  else
    select_nothing(thread, scope, &steps_);
  // The recorder's answer counts for the whole life: a session that starts in between misses it.
  const bool recorder = (mask & (category | mask_bit::local)) != 0 && recording(category);
  if (steps_.count == 0 && !recorder) return false;
  set_chosen(recorder);
  return true;
}

void RecordFunction::activate(RecordScope scope, uint32_t category) noexcept {
  ThreadPrimitives* primitives;
  choose(scope, category, &primitives);
}

void RecordFunction::activate_with(StepCallbacks&& steps) noexcept {
  const bool recorder = recording(scope_category(steps.scope())) && is_record_function_enabled();
  if (steps.empty() && !recorder) return;
  take_step(&steps_, &steps.set_);
  set_chosen(recorder);
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

// Calls the start callbacks, with nested dispatch off.
FASTPROF_ALWAYS_INLINE void RecordFunction::start(ThreadPrimitives* primitives) noexcept {
  stage_ = Stage::starting;
  if (steps_.count != 0) {
    if (FASTPROF_UNLIKELY((steps_.needs & callback_needs::ids) != 0) && primitives != nullptr)
      set_handle(next_record_handle(primitives));
    const RunningMark mark(primitives);
    ActiveCallback* const last = steps_.end();
    for (ActiveCallback* callback = steps_.begin(); callback != last; ++callback)
      callback->context = start_one(*callback, *this);
  }
  stage_ = Stage::begun;
}

// Begins the range: after the callbacks, so that their own time is outside it.
FASTPROF_ALWAYS_INLINE void RecordFunction::record(const Site* site,
                                                   const uint64_t* args) noexcept {
  if (FASTPROF_LIKELY(flags_.recorder == Recorder::none)) return;
  NameUse use;
  if (site == nullptr) site = session_site(use, scope_site(steps_.scope), name());
  static constexpr uint64_t kNoArgs[kMaxArgs] = {};
  new (&range_)
      RangeHandle(begin_range(*site, args != nullptr || site->arg_count == 0 ? args : kNoArgs));
  flags_.range_open = true;
}

FASTPROF_ALWAYS_INLINE RecordFunction::RecordFunction(const Site& site, OpenTag) noexcept {
  ThreadPrimitives* primitives;
  if (!choose(site.scope, site.mask, &primitives)) return;
  set_name(site);
  start(primitives);
  record(&site, nullptr);
}

void RecordFunction::begin(const Site* site) noexcept {
  start(existing_thread_primitives());
  if (FASTPROF_UNLIKELY(flags_.recorder == Recorder::details))
    record_details(site, __builtin_return_address(0));
  else
    record(site, nullptr);
}

// As record, with what was given beside the name. A leader that was built before sessions kept it
// records the name.
void RecordFunction::record_details(const Site* site, const void* caller) noexcept {
  State* s = state();
  if (!leader_has(s, 1)) return record(site, nullptr);
  NameUse use;
  if (site == nullptr) site = session_site(use, scope_site(steps_.scope), name());
  static constexpr uint64_t kNoArgs[kMaxArgs] = {};
  FunctionDetails details;
  if (load_relaxed(&s->input_users) != 0) {
    if (flags_.has_inputs) details.inputs = inputs_;
    if (flags_.has_kwinputs) details.kwinputs = kwinputs_;
  }
  details.sequence_number = sequence_number();
  details.forward_thread_id = forward_thread_id();
  details.handle = handle();
  if (flags_.has_node_id) details.node_id = node_id_;
  if (flags_.has_overload_name) details.overload_name = overload_name_;
  if (site->arg_count != 0) details.args = kNoArgs;
  details.caller = caller;
  OpenRange open;
  open.slot = s->functions->begin_function(s, site, &details, &open.begin);
  flags_.range_open = true;
  if (open.slot == nullptr)
    new (&range_) RangeHandle{};
  else
    new (&range_) RangeHandle{open.slot, open.begin, site, thread_block()->track->id};
}

// With the typed words of a FASTPROF_RANGE_ARGS, which callbacks see as keyword inputs.
void RecordFunction::begin_with_args(const Site& site, const uint64_t* args) noexcept {
  set_name(site);
  NamedValue values[kMaxArgs];
  if (callbacks_need_inputs()) {
    const size_t count = site.arg_count < kMaxArgs ? site.arg_count : kMaxArgs;
    for (size_t i = 0; i < count; ++i)
      values[i] = {site.arg_names[i], arg_value(site.arg_types[i], args[i])};
    set_inputs({}, Span<const NamedValue>(values, count), -1);  // the record has them as words
  }
  start(existing_thread_primitives());
  record(&site, args);
}

// Calls the end callbacks, with nested dispatch off.
FASTPROF_ALWAYS_INLINE void RecordFunction::finish() noexcept {
  stage_ = Stage::ending;
  if (FASTPROF_UNLIKELY(flags_.range_open)) end_range(range_);
  if (steps_.count != 0) {
    const RunningMark mark(existing_thread_primitives());
    ActiveCallback* const last = steps_.end();
    for (ActiveCallback* callback = steps_.begin(); callback != last; ++callback)
      end_one(*callback, *this);
  }
  stage_ = Stage::ended;
}

void RecordFunction::end_begun() noexcept {
  finish();
}

void RecordFunction::close() noexcept {
  if (FASTPROF_LIKELY(stage_ == Stage::begun)) finish();
  if (FASTPROF_UNLIKELY(flags_.owns)) free_owned();
}

void RecordFunction::free_owned() noexcept {
  free_step(&steps_);
  if (flags_.owned_name) std::free(const_cast<char*>(name_));
  if (!flags_.has_outputs) return;
  outputs_->~Value();
  std::free(outputs_);
}

FASTPROF_NAMESPACE_END
