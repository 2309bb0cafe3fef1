// SPDX-License-Identifier: Apache-2.0
// The injection library's own recording, for programs that nothing else profiles.
#pragma once

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {

// If the environment variable FASTPROF_INJECTION_OUTPUT contains a path, starts a session of the
// whole process and writes a trace to the path at exit: Perfetto's format for .pftrace, else
// Chrome's. "%p" in the path is replaced by the process id; without it, a file that another
// process has written meanwhile is kept, and the id is appended to the name. Later calls do
// nothing; problems are reported on stderr. Any thread.
void start_own_recording() noexcept;

}  // namespace annotations
FASTPROF_NAMESPACE_END
