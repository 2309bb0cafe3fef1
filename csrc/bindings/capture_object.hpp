// SPDX-License-Identifier: Apache-2.0
// CaptureObject: exposes a Capture to Python; columns become read-only arrays without a copy.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// Immutable once passed to Python; every array holds a reference.
struct CaptureObject {
  std::shared_ptr<const Capture> capture;
};

void register_capture(pybind11::module_& module);

}  // namespace bindings
FASTPROF_NAMESPACE_END
