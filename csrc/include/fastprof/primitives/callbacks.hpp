// SPDX-License-Identifier: Apache-2.0
// Registers RecordFunction callbacks (thread-local or global) and enables or disables
// RecordFunctions per thread.
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

// Returns a new, unique handle.
inline CallbackHandle next_handle(ProcessPrimitives* process) noexcept {
  return 1 + __atomic_fetch_add(&process->next_callback_handle, 1, __ATOMIC_RELAXED);
}

// Returns a reference to the list of global callbacks.
inline CallbackList global_callbacks() noexcept {
  ProcessPrimitives* process = existing_process_primitives();
  if (process == nullptr) return {};
  PrimitivesLock lock(process);
  return CallbackList::share(process->callbacks);
}

// Replaces the global list by change(list); retries if another thread changed it meanwhile. Lists
// are allocated and freed outside the lock, because a malloc hook may use RecordFunction, which
// takes the lock.
template <class Change>
inline void change_global(ProcessPrimitives* process, Change change) {
  for (;;) {
    const CallbackList former = global_callbacks();
    CallbackList next = change(former);
    PrimitivesLock lock(process);
    // `former` holds a reference, so its address cannot be reused: equal addresses mean an
    // unchanged list.
    if (process->callbacks != former.block()) continue;
    const bool had = former.enabled() != 0, has = next.enabled() != 0;
    store_relaxed(&process->enabled_callbacks, next.enabled());
    process->callbacks = next.detach();
    CallbackList::drop_shared(former);
    // Release; partner: the acquire in select_step. A thread that sees the new version rebuilds its
    // caches.
    __atomic_fetch_add(&state()->callbacks_version, 1, __ATOMIC_RELEASE);
    if (has && !had) add_callbacks_user(process, true);
    if (had && !has) remove_callbacks_user(process, true);
    return;
  }
}

// Returns the calling thread's primitives; raises StateError at thread exit.
inline ThreadPrimitives* writable_thread() {
  ThreadPrimitives* primitives = thread_primitives();
  if (primitives == nullptr)
    raise<StateError>(
        "the thread's state is already destroyed at thread exit; register callbacks earlier");
  return primitives;
}

// Applies `change` to the list that contains the handle: the calling thread's or the global one.
// Returns false if neither contains it.
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

// Prints the warning for a handle that is registered nowhere.
inline void warn_unknown(const char* what, CallbackHandle handle) noexcept {
  std::fprintf(stderr,
               "fastprof: %s(%llu): no such callback on this thread or globally; nothing changed\n",
               what, static_cast<unsigned long long>(handle));
}

}  // namespace callbacks_detail

// Registers a callback for RecordFunctions that begin on the calling thread, and in work propagated
// from it. Returns its handle, never kInvalidCallbackHandle. Raises StateError if the thread's
// storage is already freed (thread exit), Error if memory is exhausted.
inline CallbackHandle add_thread_local_callback(const RecordFunctionCallback& callback) {
  ThreadPrimitives* primitives = callbacks_detail::writable_thread();
  const CallbackHandle handle = callbacks_detail::next_handle(process_primitives());
  const CallbackList current = CallbackList::share(primitives->callbacks);
  exchange_thread_callbacks(primitives, current.with(make_callback_entry(callback, handle)));
  return handle;
}

// Registers a callback for the RecordFunctions of all threads; each thread uses it from its next
// RecordFunction on. Returns its handle. Any thread. Raises Error if memory is exhausted.
inline CallbackHandle add_global_callback(const RecordFunctionCallback& callback) {
  ProcessPrimitives* process = process_primitives();
  const CallbackHandle handle = callbacks_detail::next_handle(process);
  const CallbackEntry entry = make_callback_entry(callback, handle);
  callbacks_detail::change_global(process,
                                  [&](const CallbackList& list) { return list.with(entry); });
  return handle;
}

// Unregisters a callback of the calling thread or a global one. RecordFunctions that begin on this
// thread afterwards do not call it; another thread may still be about to. A RecordFunction that
// called the start callback still calls the end callback. An unknown handle prints a warning to
// stderr and changes nothing. Raises Error if memory is exhausted.
inline void remove_callback(CallbackHandle handle) {
  if (!callbacks_detail::change_owner(
          handle, [&](const CallbackList& list) { return list.without(handle); }))
    callbacks_detail::warn_unknown("remove_callback", handle);
}

// Suspend and resume a callback; it keeps its position in the calling order. Handles and errors as
// for remove_callback.
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

// Unregister all callbacks of the calling thread, or all global ones.
inline void clear_thread_local_callbacks() noexcept {
  if (ThreadPrimitives* primitives = existing_thread_primitives())
    exchange_thread_callbacks(primitives, {});
}
inline void clear_global_callbacks() noexcept {
  if (ProcessPrimitives* process = existing_process_primitives())
    callbacks_detail::change_global(process, [](const CallbackList&) { return CallbackList(); });
}
// Unregisters the calling thread's callbacks and the global ones, but not those of other threads.
inline void clear_callbacks() noexcept {
  clear_global_callbacks();
  clear_thread_local_callbacks();
}

// Return whether any enabled callback is registered: on the calling thread, globally, or either.
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

// Enables or disables the RecordFunctions of the calling thread. Disabled ones call no callbacks
// and record nothing; FASTPROF_RANGE and the other recorder macros still record, but call no
// callbacks.
inline void enable_record_function(bool on = true) noexcept {
  ThreadPrimitives* primitives = on ? existing_thread_primitives() : thread_primitives();
  if (primitives == nullptr) return;
  primitives->disabled = !on;
}
inline bool is_record_function_enabled() noexcept {
  const ThreadPrimitives* primitives = existing_thread_primitives();
  return primitives == nullptr || primitives->disabled == 0;
}

// Enables or disables the calling thread's RecordFunctions for a scope; the destructor restores the
// former setting. Destroy on the same thread.
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

// The thread-local callbacks and the enabled flag of a thread, as ThreadLocalState saves and
// restores them. The functions act on the calling thread.
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

// Seeds the sampling of the calling thread: from here, the same sequence of RecordFunctions on this
// thread draws the same samples.
inline void set_sampling_seed(uint64_t seed) noexcept {
  ThreadPrimitives* primitives = thread_primitives();
  if (primitives == nullptr) return;
  primitives->generator.state = seed;
  invalidate_step_caches(primitives);
}

FASTPROF_NAMESPACE_END
