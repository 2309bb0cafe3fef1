// SPDX-License-Identifier: Apache-2.0
// Attaches the NVTX tool of this process (Nsight Systems, or our own injection library), as a
// binary that contains NVTX's headers would, but without them.
#pragma once

#include "core/range_tool.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {

// Returns the tool that NVTX_INJECTION64_PATH names, loaded at the first call. Later calls return
// the same tool, or retry if there was none. Any thread.
range_tools::FoundTool find_tool();

}  // namespace nvtx
FASTPROF_NAMESPACE_END
