// SPDX-License-Identifier: Apache-2.0
// Reports an exception thrown by a RecordFunction callback: once per callback, on stderr.
#pragma once

#include <cstdio>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/process_primitives.hpp"

FASTPROF_NAMESPACE_BEGIN

// Records that `callback` failed. Returns true if its failure has not been reported before; false
// also when the table of kMaxReportedFailures callbacks is full. Any thread; takes the primitives
// lock.
inline bool first_callback_failure(void (*callback)()) noexcept {
  ProcessPrimitives* process = process_primitives();
  PrimitivesLock lock(process);
  for (uint32_t i = 0; i < process->reported_count; ++i)
    if (process->reported[i] == callback) return false;
  if (process->reported_count == kMaxReportedFailures) return false;
  process->reported[process->reported_count++] = callback;
  return true;
}

// Prints to stderr that `callback` threw. `where`: "start" or "end"; `what`: the exception's text,
// or null if it is not a std::exception. The profiled code is not affected. Any thread.
FASTPROF_COLD inline void report_callback_failure(void (*callback)(), const char* where,
                                                  const char* what) noexcept {
  if (!first_callback_failure(callback)) return;
  std::fprintf(stderr,
               "fastprof: a RecordFunction %s callback threw%s%s; it was caught, and further "
               "exceptions of this callback are not reported\n",
               where, what != nullptr ? ": " : " an exception not derived from std::exception",
               what != nullptr ? what : "");
}

FASTPROF_NAMESPACE_END
