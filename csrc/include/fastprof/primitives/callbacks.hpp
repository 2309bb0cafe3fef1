// SPDX-License-Identifier: Apache-2.0
// Registration of RecordFunction callbacks, for one thread or for all, and the switches of a
// thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/primitives/callback_list.hpp"
#include "fastprof/primitives/observer.hpp"
#include "fastprof/primitives/process_primitives.hpp"
#include "fastprof/primitives/thread_primitives.hpp"
#include "fastprof/primitives/value_read.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace callbacks_detail {

inline CallbackHandle next_handle(ProcessPrimitives* process) noexcept {
  return 1 + __atomic_fetch_add(&process->next_callback_handle, 1, __ATOMIC_RELAXED);
}

inline CallbackList global_callbacks() noexcept {
  ProcessPrimitives* process = existing_process_primitives();
  if (process == nullptr) return {};
  PrimitivesLock lock(process);
  return CallbackList::share(process->callbacks);
}

// Replaces the global list by change(list). Lists are made and freed outside the lock: a malloc
// hook may use RecordFunction, which takes it.
template <class Change>
inline void change_global(ProcessPrimitives* process, Change change) {
  for (;;) {
    const CallbackList former = global_callbacks();
    CallbackList next = change(former);
    PrimitivesLock lock(process);
    // Our reference keeps the address from being reused: equal means unchanged.
    if (process->callbacks != former.block()) continue;
    const bool had = former.enabled() != 0, has = next.enabled() != 0;
    store_relaxed(&process->enabled_callbacks, next.enabled());
    process->callbacks = next.detach();
    CallbackList::drop_shared(former);
    // Release pairs with the acquire in select_step: a thread that sees the new version rebuilds.
    __atomic_fetch_add(&state()->callbacks_version, 1, __ATOMIC_RELEASE);
    if (has && !had) add_callbacks_user(process, true);
    if (had && !has) remove_callbacks_user(process, true);
    return;
  }
}

inline ThreadPrimitives* writable_thread() {
  ThreadPrimitives* primitives = thread_primitives();
  if (primitives == nullptr)
    raise<StateError>("this thread is at its very end; register callbacks earlier");
  return primitives;
}

// Applies `change` to whichever list knows the handle; false when none does.
template <class Change>
inline bool change_owner(CallbackHandle handle, Change change) {
  if (ThreadPrimitives* primitives = existing_thread_primitives()) {
    const CallbackList local = CallbackList::share(primitives->callbacks);
    if (local.contains(handle)) {
      exchange_thread_callbacks(primitives, change(local));
      return true;
    }
  }
  if (!global_callbacks().contains(handle)) return false;
  change_global(process_primitives(), change);
  return true;
}

inline void warn_unknown(const char* what, CallbackHandle handle) noexcept {
  std::fprintf(stderr,
               "fastprof: %s(%llu): no such callback on this thread or globally; nothing changed\n",
               what, static_cast<unsigned long long>(handle));
}

}  // namespace callbacks_detail

// Registers an observer for RecordFunctions that begin on the calling thread (and in work
// propagated from it). Never returns kInvalidCallbackHandle.
inline CallbackHandle add_thread_local_callback(const RecordFunctionCallback& callback) {
  ThreadPrimitives* primitives = callbacks_detail::writable_thread();
  const CallbackHandle handle = callbacks_detail::next_handle(process_primitives());
  const CallbackList current = CallbackList::share(primitives->callbacks);
  exchange_thread_callbacks(primitives, current.with(make_callback_entry(callback, handle)));
  return handle;
}

// Registers an observer for the RecordFunctions of all threads. A thread sees it at its next
// RecordFunction.
inline CallbackHandle add_global_callback(const RecordFunctionCallback& callback) {
  ProcessPrimitives* process = process_primitives();
  const CallbackHandle handle = callbacks_detail::next_handle(process);
  const CallbackEntry entry = make_callback_entry(callback, handle);
  callbacks_detail::change_global(process,
                                  [&](const CallbackList& list) { return list.with(entry); });
  return handle;
}

// Unregisters: no RecordFunction that begins on this thread from now on calls it (another thread
// may be just about to). One that called its start callback still calls its end callback. An
// unknown handle is reported on stderr and changes nothing.
inline void remove_callback(CallbackHandle handle) {
  if (!callbacks_detail::change_owner(
          handle, [&](const CallbackList& list) { return list.without(handle); }))
    callbacks_detail::warn_unknown("remove_callback", handle);
}

// Stops and resumes calling a callback without giving up its place in the order.
inline void disable_callback(CallbackHandle handle) {
  if (!callbacks_detail::change_owner(
          handle, [&](const CallbackList& list) { return list.with_enabled(handle, false); }))
    callbacks_detail::warn_unknown("disable_callback", handle);
}
inline void reenable_callback(CallbackHandle handle) {
  if (!callbacks_detail::change_owner(
          handle, [&](const CallbackList& list) { return list.with_enabled(handle, true); }))
    callbacks_detail::warn_unknown("reenable_callback", handle);
}

inline void clear_thread_local_callbacks() noexcept {
  if (ThreadPrimitives* primitives = existing_thread_primitives())
    exchange_thread_callbacks(primitives, {});
}
inline void clear_global_callbacks() noexcept {
  if (ProcessPrimitives* process = existing_process_primitives())
    callbacks_detail::change_global(process, [](const CallbackList&) { return CallbackList(); });
}
// This thread's and the global ones. Not those of other threads.
inline void clear_callbacks() noexcept {
  clear_global_callbacks();
  clear_thread_local_callbacks();
}

// Whether any enabled callback is registered.
inline bool has_thread_local_callbacks() noexcept {
  const ThreadPrimitives* primitives = existing_thread_primitives();
  return primitives != nullptr && CallbackList::share(primitives->callbacks).enabled() != 0;
}
inline bool has_global_callbacks() noexcept {
  return callbacks_detail::global_callbacks().enabled() != 0;
}
inline bool has_callbacks() noexcept {
  return has_thread_local_callbacks() || has_global_callbacks();
}

// Switches RecordFunctions of the calling thread on or off: off, they call no callback and record
// nothing. FASTPROF_RANGE and the other recorder macros then call no callbacks, but record.
inline void enable_record_function(bool on = true) noexcept {
  ThreadPrimitives* primitives = on ? existing_thread_primitives() : thread_primitives();
  if (primitives == nullptr) return;
  primitives->disabled = !on;
}
inline bool is_record_function_enabled() noexcept {
  const ThreadPrimitives* primitives = existing_thread_primitives();
  return primitives == nullptr || primitives->disabled == 0;
}

// Sets the switch for a scope, on one thread.
class RecordFunctionGuard {
 public:
  explicit RecordFunctionGuard(bool on = true) noexcept : former_(is_record_function_enabled()) {
    if (former_ != on) enable_record_function(on);
  }
  ~RecordFunctionGuard() { enable_record_function(former_); }
  RecordFunctionGuard(const RecordFunctionGuard&) = delete;
  RecordFunctionGuard& operator=(const RecordFunctionGuard&) = delete;

 private:
  bool former_;
};
class DisableRecordFunctionGuard : public RecordFunctionGuard {
 public:
  DisableRecordFunctionGuard() noexcept : RecordFunctionGuard(false) {}
};

// The callbacks and the switch of a thread, as a snapshot carries them.
struct RecordFunctionTls {
  CallbackList callbacks;
  bool enabled = true;
};
inline RecordFunctionTls record_function_tls() noexcept {
  const ThreadPrimitives* primitives = existing_thread_primitives();
  if (primitives == nullptr) return {};
  return {CallbackList::share(primitives->callbacks), is_record_function_enabled()};
}
inline void set_record_function_tls(RecordFunctionTls tls) noexcept {
  const bool plain = tls.callbacks.size() == 0 && tls.enabled;
  ThreadPrimitives* primitives = plain ? existing_thread_primitives() : thread_primitives();
  if (primitives == nullptr) return;
  exchange_thread_callbacks(primitives, std::move(tls.callbacks));
  enable_record_function(tls.enabled);
}

// Seeds the sampling of the calling thread: from here the same RecordFunctions on this thread
// choose the same samples.
inline void set_sampling_seed(uint64_t seed) noexcept {
  ThreadPrimitives* primitives = thread_primitives();
  if (primitives == nullptr) return;
  primitives->generator.state = seed;
  stale_step_caches(primitives);
}

FASTPROF_NAMESPACE_END
