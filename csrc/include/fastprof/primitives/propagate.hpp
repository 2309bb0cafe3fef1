// SPDX-License-Identifier: Apache-2.0
// propagate: wraps a callable so that it runs with the thread state of the thread that wrapped it.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/thread_local_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Result of propagate: the callable f and the snapshot it runs in. Copyable if f is (as
// std::function requires), movable if f is (as std::thread requires).
template <class Callable>
class Propagated {
 public:
  // Excludes Propagated itself, which is copied or moved instead (into std::thread, std::function).
  template <class Source,
            std::enable_if_t<!std::is_same_v<std::decay_t<Source>, Propagated>, int> = 0>
  explicit Propagated(Source&& f) : f_(std::forward<Source>(f)) {}

  // Calls f with these arguments. Any thread, any number of times; exceptions of f pass through.
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

// Wraps a callable for another thread: pool.submit(fastprof::propagate([] { ... })). Captures the
// calling thread's debug info, callbacks, thread-local sessions and registered slots now; they are
// in effect while f runs, and the running thread's own state is restored afterwards.
template <class Callable>
inline Propagated<std::decay_t<Callable>> propagate(Callable&& f) {
  return Propagated<std::decay_t<Callable>>(std::forward<Callable>(f));
}

FASTPROF_NAMESPACE_END
