// SPDX-License-Identifier: Apache-2.0
// Attaches the ITT collector of this process (VTune, or our own), as a binary that contains
// Intel's ittnotify does, without it.
#pragma once

#include "core/range_tool.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace itt {

// Returns the collector that INTEL_LIBITTNOTIFY64 names, loading it at the first call. Later calls
// return the same, or try again if there was none. Ranges are tasks of the domain "fastprof"; a
// mark is an empty task, as PyTorch makes it. Any thread.
range_tools::FoundTool find_tool();

}  // namespace itt
FASTPROF_NAMESPACE_END
