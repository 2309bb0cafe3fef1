// SPDX-License-Identifier: Apache-2.0
// PyTorch's _RecordFunctionFast, which does nothing while torch's own profiler is off, made to
// record.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// From now on __enter__ and __exit__ of `type` (torch._C._profiler._RecordFunctionFast) record a
// range as well. Every object of
// the type is served, whenever it was made and by whatever name the type was imported, because the
// two entries of the type's own dictionary are exchanged. Counted: as many release_fast_ranges put
// the former entries back. Empty, or the reason why this type is not as expected, in which case
// nothing was changed. GIL held; throws what Python raised.
std::string observe_fast_ranges(PyObject* type);

// Ranges that are open then stay unfinished. GIL held.
void release_fast_ranges();

// In a forked child: nobody observes.
void forget_fast_ranges_in_child();

}  // namespace bindings
FASTPROF_NAMESPACE_END
