// SPDX-License-Identifier: Apache-2.0
// plugin_call: calls into a plug-in, which may throw although it should not.
#pragma once

#include <exception>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/device_plugin.h"

FASTPROF_NAMESPACE_BEGIN
namespace plugins {

// The text of a reason, which the plug-in may have left without its null byte, or empty.
inline std::string text_of(fastprof_reason& reason, const char* otherwise) {
  reason.text[sizeof reason.text - 1] = 0;
  return reason.text[0] != 0 ? reason.text : otherwise;
}

// Calls `function` and returns true; if it throws, returns false and says what in `thrown`.
template <class Function>
bool call_plugin(Function function, std::string& thrown) {
#if FASTPROF_EXCEPTIONS
  try {
    function();
    return true;
  } catch (const std::exception& error) {
    thrown = std::string("it threw an exception: ") + error.what();
  } catch (...) {
    thrown = "it threw an exception that is no std::exception";
  }
  return false;
#else
  (void)thrown;
  function();
  return true;
#endif
}

}  // namespace plugins
FASTPROF_NAMESPACE_END
