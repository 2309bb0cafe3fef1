// SPDX-License-Identifier: Apache-2.0
// Records PyTorch's _RecordFunctionFast, which does nothing while torch's own profiler is off.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// Makes __enter__ and __exit__ of `type` (torch._C._profiler._RecordFunctionFast) record a range.
// Replaces the two entries in the type's dictionary, so that all objects are covered, whenever
// created and however imported. Counted: the same number of release_fast_ranges calls restores the
// former entries. Returns an empty string, or the reason why the type is not as expected; nothing
// is changed then. Requires the GIL; throws Python errors.
std::string observe_fast_ranges(PyObject* type);

// Undoes observe_fast_ranges. Open ranges stay unfinished. Requires the GIL.
void release_fast_ranges();

// In a forked child: restores the former entries.
void forget_fast_ranges_in_child();

}  // namespace bindings
FASTPROF_NAMESPACE_END
