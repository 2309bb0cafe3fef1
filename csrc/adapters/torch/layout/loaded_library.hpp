// SPDX-License-Identifier: Apache-2.0
// Finds the loaded libtorch_cpu, and symbols in it and its dependencies.
#pragma once

#include <cstring>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Returns a dlopen handle of libtorch_cpu, which is never closed, because callbacks may be running
// in the library. Never loads it. Returns null and sets `*why` if it is not loaded. Any thread.
void* loaded_libtorch(const char** why) noexcept;

// Returns the address of a symbol, or null.
void* find_symbol(void* library, const char* symbol) noexcept;

// Sets a function pointer to a symbol; returns false if there is none.
template <class F>
bool find_function(void* library, const char* symbol, F*& function) noexcept {
  void* address = find_symbol(library, symbol);
  static_assert(sizeof address == sizeof function, "POSIX: functions are addressed as data is");
  std::memcpy(&function, &address, sizeof address);
  return address != nullptr;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
