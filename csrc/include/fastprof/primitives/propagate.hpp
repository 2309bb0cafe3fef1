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
template <class F>
class Propagated {
 public:
  // Not for a Propagated, which is copied or moved instead (into std::thread, std::function).
  template <class G, std::enable_if_t<!std::is_same_v<std::decay_t<G>, Propagated>, int> = 0>
  explicit Propagated(G&& f) : f_(std::forward<G>(f)) {}

  // Calls f with these arguments, any thread, any number of times; what f throws passes through.
  template <class... Args>
  std::invoke_result_t<F&, Args...> operator()(Args&&... args) & {
    const ThreadLocalStateGuard guard(state_);
    return std::invoke(f_, std::forward<Args>(args)...);
  }
  template <class... Args>
  std::invoke_result_t<const F&, Args...> operator()(Args&&... args) const& {
    const ThreadLocalStateGuard guard(state_);
    return std::invoke(f_, std::forward<Args>(args)...);
  }
  template <class... Args>
  std::invoke_result_t<F, Args...> operator()(Args&&... args) && {
    const ThreadLocalStateGuard guard(state_);
    return std::invoke(std::move(f_), std::forward<Args>(args)...);
  }

 private:
  ThreadLocalState state_;
  F f_;
};

// Wraps a callable for another thread: pool.submit(fastprof::propagate([] { ... })). The debug
// info, callbacks, thread-local sessions and registered slots of the calling thread, as they are
// now, are in place while it runs; afterwards the running thread has its own back.
template <class F>
inline Propagated<std::decay_t<F>> propagate(F&& f) {
  return Propagated<std::decay_t<F>>(std::forward<F>(f));
}

FASTPROF_NAMESPACE_END
