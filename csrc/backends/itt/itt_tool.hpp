// SPDX-License-Identifier: Apache-2.0
// Attaches the ITT collector of this process (VTune, or our own), as a binary that contains Intel's
// ittnotify would, but without it.
#pragma once

#include "core/range_tool.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace itt {

// Returns the collector that INTEL_LIBITTNOTIFY64 names, loaded at the first call. Later calls
// return the same collector, or retry if there was none. Ranges become tasks of the domain
// "fastprof"; a mark becomes an empty task, as in PyTorch. Any thread.
range_tools::FoundTool find_tool();

}  // namespace itt
FASTPROF_NAMESPACE_END
