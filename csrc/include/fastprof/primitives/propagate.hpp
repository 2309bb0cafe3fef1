// SPDX-License-Identifier: Apache-2.0
// propagate: a callable that runs with the thread state of where it was made.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/thread_local_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// What propagate returns: f with the snapshot it runs in. Copyable if f is (std::function takes it
// then), movable if f is (std::thread takes it).
template <class Callable>
class Propagated {
 public:
  // Not for a Propagated, which is copied or moved instead (into std::thread, std::function).
  template <class Source,
            std::enable_if_t<!std::is_same_v<std::decay_t<Source>, Propagated>, int> = 0>
  explicit Propagated(Source&& f) : f_(std::forward<Source>(f)) {}

  // Calls f with these arguments, any thread, any number of times; what f throws passes through.
  template <class... Args>
  std::invoke_result_t<Callable&, Args...> operator()(Args&&... args) & {
    const ThreadLocalStateGuard guard(state_);
    return std::invoke(f_, std::forward<Args>(args)...);
  }
  template <class... Args>
  std::invoke_result_t<const Callable&, Args...> operator()(Args&&... args) const& {
    const ThreadLocalStateGuard guard(state_);
    return std::invoke(f_, std::forward<Args>(args)...);
  }
  template <class... Args>
  std::invoke_result_t<Callable, Args...> operator()(Args&&... args) && {
    const ThreadLocalStateGuard guard(state_);
    return std::invoke(std::move(f_), std::forward<Args>(args)...);
  }

 private:
  ThreadLocalState state_;
  Callable f_;
};

// Wraps a callable for another thread: pool.submit(fastprof::propagate([] { ... })). The debug
// info, callbacks, thread-local sessions and registered slots of the calling thread, as they are
// now, are in place while it runs; afterwards the running thread has its own back.
template <class Callable>
inline Propagated<std::decay_t<Callable>> propagate(Callable&& f) {
  return Propagated<std::decay_t<Callable>>(std::forward<Callable>(f));
}

FASTPROF_NAMESPACE_END
