// SPDX-License-Identifier: Apache-2.0
// Source of the frames for with_stack. Set by the host program, because native frames are of little
// use in an interpreter.
#pragma once

#include <string>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Appends the calling thread's frames, innermost first. Called at the begin of each range that
// records a stack.
using StackProvider = void (*)(std::vector<std::string>* frames);

namespace legacy_detail {
inline StackProvider g_stack_provider = nullptr;  // release store, acquire load
}  // namespace legacy_detail

// Sets the provider for profilers enabled by this library; null: none, so stacks stay empty.
// Returns the previous one. Any thread.
inline StackProvider set_stack_provider(StackProvider provider) noexcept {
  return __atomic_exchange_n(&legacy_detail::g_stack_provider, provider, __ATOMIC_ACQ_REL);
}

// Returns the current provider, or null. Any thread.
inline StackProvider stack_provider() noexcept {
  return __atomic_load_n(&legacy_detail::g_stack_provider, __ATOMIC_ACQUIRE);
}

FASTPROF_NAMESPACE_END
