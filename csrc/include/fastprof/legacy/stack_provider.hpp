// SPDX-License-Identifier: Apache-2.0
// Where the frames of with_stack come from: the C++ stack is of little use in an interpreter, so
// the host says.
#pragma once

#include <string>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Appends the calling thread's frames, innermost first. Called at the begin of each range that
// wants a stack.
using StackProvider = void (*)(std::vector<std::string>* frames);

namespace legacy_detail {
inline StackProvider g_stack_provider = nullptr;  // release store, acquire load
}  // namespace legacy_detail

// Makes `provider` what profilers enabled by this library ask; null: none, and stacks stay empty.
// Returns what was set before. Any thread.
inline StackProvider set_stack_provider(StackProvider provider) noexcept {
  return __atomic_exchange_n(&legacy_detail::g_stack_provider, provider, __ATOMIC_ACQ_REL);
}

inline StackProvider stack_provider() noexcept {
  return __atomic_load_n(&legacy_detail::g_stack_provider, __ATOMIC_ACQUIRE);
}

FASTPROF_NAMESPACE_END
