// SPDX-License-Identifier: Apache-2.0
// call_plugin(): calls into a device plug-in and catches exceptions, although its interface forbids
// them.
#pragma once

#include <exception>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/device_plugin.h"

FASTPROF_NAMESPACE_BEGIN
namespace plugins {

// Returns the text of a reason, `otherwise` if it is empty. The plug-in may not have terminated it.
inline std::string text_of(fastprof_reason& reason, const char* otherwise) {
  reason.text[sizeof reason.text - 1] = 0;
  return reason.text[0] != 0 ? reason.text : otherwise;
}

// Calls `function`. Returns false, and describes the exception in `thrown`, if it throws.
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
