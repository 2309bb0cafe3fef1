// SPDX-License-Identifier: Apache-2.0
// The libtorch_cpu that the process has loaded, and symbols in it and in what it is linked with.
#pragma once

#include <cstring>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// A handle for dlsym, which is never closed: callbacks may be in progress in the library. It is
// never loaded from here. Null and `*why` when it is not there. Any thread.
void* loaded_libtorch(const char** why) noexcept;

// The address of a symbol, null when there is none.
void* find_symbol(void* library, const char* symbol) noexcept;

// Sets a pointer to a function; false when there is none.
template <class F>
bool find_function(void* library, const char* symbol, F*& function) noexcept {
  void* address = find_symbol(library, symbol);
  static_assert(sizeof address == sizeof function, "POSIX: functions are addressed as data is");
  std::memcpy(&function, &address, sizeof address);
  return address != nullptr;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
