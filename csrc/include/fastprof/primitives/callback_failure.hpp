// SPDX-License-Identifier: Apache-2.0
// The report of a callback that threw: once per callback, on stderr.
#pragma once

#include <cstdio>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/process_primitives.hpp"

FASTPROF_NAMESPACE_BEGIN

// True the first time a callback is seen here. When the table is full nothing more is reported.
inline bool first_callback_failure(void (*callback)()) noexcept {
  ProcessPrimitives* process = process_primitives();
  PrimitivesLock lock(process);
  for (uint32_t i = 0; i < process->reported_count; ++i)
    if (process->reported[i] == callback) return false;
  if (process->reported_count == kMaxReportedFailures) return false;
  process->reported[process->reported_count++] = callback;
  return true;
}

// Tells that `callback` threw; what is the exception's text or null. The profiled code sees
// nothing.
FASTPROF_COLD inline void report_callback_failure(void (*callback)(), const char* where,
                                                  const char* what) noexcept {
  if (!first_callback_failure(callback)) return;
  std::fprintf(stderr,
               "fastprof: a RecordFunction %s callback threw%s%s; it was caught, and further "
               "exceptions of this callback are not reported\n",
               where, what != nullptr ? ": " : " something that is no std::exception",
               what != nullptr ? what : "");
}

FASTPROF_NAMESPACE_END
