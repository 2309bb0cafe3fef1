// SPDX-License-Identifier: Apache-2.0
// The leader's part of RecordFunction: selects, starts and ends callbacks and records the range.
// Other libraries call it through RecorderFunctions, so an annotated library need not compile it.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/callbacks.hpp"
#include "fastprof/primitives/function_details.hpp"
#include "fastprof/primitives/record_function.hpp"
#include "fastprof/primitives/step_callbacks.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"
#include "fastprof/recorder/hot_path/range.hpp"
#include "fastprof/recorder/process/masks.hpp"
#include "fastprof/recorder/state/abi_minor.hpp"

FASTPROF_NAMESPACE_BEGIN

// Converts an argument word of a site to a Value; a pointer becomes its integer value.
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

// Sets ThreadPrimitives::running for a scope, so that nested RecordFunctions call no callbacks.
// No-op inside a callback (already set) and at thread exit (primitives is null).
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

// Calls the start callback; returns its context.
FASTPROF_ALWAYS_INLINE ObserverContext* start_one(const ActiveCallback& callback,
                                                  const RecordFunction& function) noexcept {
  if (callback.start == nullptr) return nullptr;
#if FASTPROF_EXCEPTIONS
  return call_start(reinterpret_cast<StartCallback>(callback.start), function);
#else
  return callback.invokers->start(reinterpret_cast<StartCallback>(callback.start), function);
#endif
}

// Calls the end callback and deletes the context.
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

// Implementation of RecordFunction in the leader. open, activate, begin, end and close are leader
// functions, see RecorderFunctions. Nothing throws.
struct FunctionCalls {
  using Stage = RecordFunction::Stage;
  using Recorder = RecordFunction::Recorder;

  // The leader operates on objects of other libraries, so a minor version must not move members.
  static_assert(offsetof(RecordFunction, stage_) == 0 && offsetof(RecordFunction, flags_) == 1 &&
                    offsetof(RecordFunction, steps_) == 16 &&
                    offsetof(RecordFunction, name_) == 168 &&
                    offsetof(RecordFunction, inputs_) == 184 &&
                    offsetof(RecordFunction, outputs_) == 216 &&
                    offsetof(RecordFunction, sequence_number_) == 224 &&
                    offsetof(RecordFunction, overload_name_) == 264 &&
                    offsetof(RecordFunction, range_) == 272 && sizeof(RecordFunction) == 304,
                "RecordFunction is ABI");
  static_assert(sizeof(RecordFunction::Flags) == 15 && sizeof(StepSet) == 152,
                "what a RecordFunction holds is ABI");
  static_assert(sizeof(FunctionDetails) == 96 && offsetof(FunctionDetails, caller) == 88,
                "what a RecordFunction passes to the recorder is ABI");
  static_assert(offsetof(ProcessPrimitives, callbacks) == sizeof(pthread_mutex_t) &&
                    offsetof(ProcessPrimitives, enabled_callbacks) ==
                        48 + sizeof(pthread_mutex_t) &&
                    offsetof(ProcessPrimitives, device_stubs) == 312 + sizeof(pthread_mutex_t) &&
                    offsetof(ProcessPrimitives, reserved) == 352 + sizeof(pthread_mutex_t) &&
                    sizeof(ProcessPrimitives) == 440 + sizeof(pthread_mutex_t),
                "the process's primitives are ABI");
  static_assert(sizeof(StepCandidate) == 56 && sizeof(StepCache) == 184 &&
                    sizeof(ThreadPrimitives) == 144 + kNumRecordScopes * sizeof(StepCache),
                "the thread's primitives are ABI");
  static_assert(sizeof(CallbackListBlock) == 16 && sizeof(DebugInfoNode) == 56,
                "the blocks of shared lists are ABI");

  FASTPROF_ALWAYS_INLINE static void set_chosen(RecordFunction& f, bool recorder) noexcept {
    f.stage_ = Stage::chosen;
    f.flags_ = RecordFunction::Flags{};
    f.flags_.recorder = recorder ? Recorder::name : Recorder::none;
    if (FASTPROF_UNLIKELY(f.steps_.count > kInlineCallbacks)) f.flags_.owns = true;
  }

  // Selects the callbacks and checks whether the recorder is active. Returns false if neither
  // observes. *primitives: set to the calling thread's primitives, or null if it has none.
  FASTPROF_ALWAYS_INLINE static bool choose(RecordFunction& f, RecordScope scope, uint32_t category,
                                            ThreadPrimitives** primitives) noexcept {
    const uint32_t mask = effective_mask(state());
    ThreadPrimitives* thread = *primitives = dispatch_primitives(mask);
    if (thread != nullptr && FASTPROF_UNLIKELY(thread->disabled != 0)) return false;
    if ((mask & mask_bit::callbacks) != 0 && thread != nullptr && thread->running == 0)
      select_step(thread, scope, &f.steps_);
    else
      select_nothing(thread, scope, &f.steps_);
    // Decided once for the whole call: a session that starts later does not record it.
    const bool recorder = (mask & (category | mask_bit::local)) != 0 && recording(category);
    if (f.steps_.count == 0 && !recorder) return false;
    set_chosen(f, recorder);
    return true;
  }

  static void activate_with(RecordFunction& f, StepCallbacks&& steps) noexcept {
    const bool recorder = recording(scope_category(steps.scope())) && is_record_function_enabled();
    if (steps.empty() && !recorder) return;
    take_step(&f.steps_, &steps.set_);
    set_chosen(f, recorder);
  }

  // Calls the start callbacks; nested RecordFunctions call none meanwhile.
  FASTPROF_ALWAYS_INLINE static void start(RecordFunction& f,
                                           ThreadPrimitives* primitives) noexcept {
    f.stage_ = Stage::starting;
    if (f.steps_.count != 0) {
      if (FASTPROF_UNLIKELY((f.steps_.needs & callback_needs::ids) != 0) && primitives != nullptr)
        f.set_handle(next_record_handle(primitives));
      const RunningMark mark(primitives);
      ActiveCallback* const last = f.steps_.end();
      for (ActiveCallback* callback = f.steps_.begin(); callback != last; ++callback)
        callback->context = start_one(*callback, f);
    }
    f.stage_ = Stage::begun;
  }

  // Begins the recorded range. Called after the start callbacks, so that their time is outside it.
  FASTPROF_ALWAYS_INLINE static void record(RecordFunction& f, const Site* site,
                                            const uint64_t* args) noexcept {
    if (FASTPROF_LIKELY(f.flags_.recorder == Recorder::none)) return;
    NameUse use;
    if (site == nullptr) site = session_site(use, scope_site(f.steps_.scope), f.name());
    static constexpr uint64_t kNoArgs[kMaxArgs] = {};
    new (&f.range_)
        RangeHandle(begin_range(*site, args != nullptr || site->arg_count == 0 ? args : kNoArgs));
    f.flags_.range_open = true;
  }

  // As record, and passes inputs and the other optional data.
  FASTPROF_NOINLINE static void record_details(RecordFunction& f, const Site* site,
                                               const void* caller) noexcept {
    State* s = state();
    NameUse use;
    if (site == nullptr) site = session_site(use, scope_site(f.steps_.scope), f.name());
    static constexpr uint64_t kNoArgs[kMaxArgs] = {};
    FunctionDetails details;
    if (load_relaxed(&s->input_users) != 0) {
      if (f.flags_.has_inputs) details.inputs = f.inputs_;
      if (f.flags_.has_kwinputs) details.kwinputs = f.kwinputs_;
    }
    details.sequence_number = f.sequence_number();
    details.forward_thread_id = f.forward_thread_id();
    details.handle = f.handle();
    if (f.flags_.has_node_id) details.node_id = f.node_id_;
    if (f.flags_.has_overload_name) details.overload_name = f.overload_name_;
    if (site->arg_count != 0) details.args = kNoArgs;
    details.caller = caller;
    OpenRange open;
    open.slot = s->functions->begin_function(s, site, &details, &open.begin);
    f.flags_.range_open = true;
    if (open.slot == nullptr)
      new (&f.range_) RangeHandle{};
    else
      new (&f.range_) RangeHandle{open.slot, open.begin, site, thread_block()->track->id};
  }

  // Ends the recorded range, then calls the end callbacks; nested RecordFunctions call none
  // meanwhile.
  FASTPROF_ALWAYS_INLINE static void finish(RecordFunction& f) noexcept {
    f.stage_ = Stage::ending;
    if (FASTPROF_UNLIKELY(f.flags_.range_open)) end_range(f.range_);
    if (f.steps_.count != 0) {
      const RunningMark mark(existing_thread_primitives());
      ActiveCallback* const last = f.steps_.end();
      for (ActiveCallback* callback = f.steps_.begin(); callback != last; ++callback)
        end_one(*callback, f);
    }
    f.stage_ = Stage::ended;
  }

  FASTPROF_COLD static void free_owned(RecordFunction& f) noexcept {
    free_step(&f.steps_);
    if (f.flags_.owned_name) std::free(const_cast<char*>(f.name_));
    if (!f.flags_.has_outputs) return;
    f.outputs_->~Value();
    std::free(f.outputs_);
  }

  // Begins with the argument words of a FASTPROF_RANGE_ARGS, which callbacks see as keyword inputs.
  static void start_with_args(RecordFunction& f, const Site& site, const uint64_t* args) noexcept {
    f.set_name(site);
    NamedValue values[kMaxArgs];
    if (f.callbacks_need_inputs()) {
      const size_t count = site.arg_count < kMaxArgs ? site.arg_count : kMaxArgs;
      for (size_t i = 0; i < count; ++i)
        values[i] = {site.arg_names[i], arg_value(site.arg_types[i], args[i])};
      // For callbacks only: record() stores the argument words.
      f.set_inputs({}, Span<const NamedValue>(values, count), -1);
    }
    start(f, existing_thread_primitives());
    record(f, &site, args);
  }

  static RecordFunction* open(State*, void* storage, const Site* site) noexcept {
    auto* f = new (storage) RecordFunction(*site, RecordFunction::OpenTag{});
    return f->is_active() ? f : nullptr;
  }
  static void activate(State*, RecordFunction* f, RecordScope scope, uint32_t category) noexcept {
    ThreadPrimitives* primitives;
    choose(*f, scope, category, &primitives);
  }
  static void begin(State*, RecordFunction* f, const Site* site) noexcept {
    start(*f, existing_thread_primitives());
    if (FASTPROF_UNLIKELY(f->flags_.recorder == Recorder::details))
      record_details(*f, site, __builtin_return_address(0));
    else
      record(*f, site, nullptr);
  }
  static void end(RecordFunction* f) noexcept { finish(*f); }
  static void close(RecordFunction* f) noexcept {
    if (FASTPROF_LIKELY(f->stage_ == Stage::begun)) finish(*f);
    if (FASTPROF_UNLIKELY(f->flags_.owns)) free_owned(*f);
  }
};

FASTPROF_ALWAYS_INLINE RecordFunction::RecordFunction(const Site& site, OpenTag) noexcept {
  ThreadPrimitives* primitives;
  if (!FunctionCalls::choose(*this, site.scope, site.mask, &primitives)) return;
  set_name(site);
  FunctionCalls::start(*this, primitives);
  FunctionCalls::record(*this, &site, nullptr);
}

inline RecordFunction::RecordFunction(StepCallbacks&& steps) noexcept {
  FunctionCalls::activate_with(*this, static_cast<StepCallbacks&&>(steps));
}

FASTPROF_NAMESPACE_END
