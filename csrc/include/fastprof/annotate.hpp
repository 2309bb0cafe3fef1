// SPDX-License-Identifier: Apache-2.0
// All that an annotated library includes: ranges, marks, counters, flows, async ranges, memory
// reports, RecordFunctions. Light to compile, and complete: the library joins the recorder of the
// process it is loaded into, before or after whoever has the Session (session.hpp, fastprof.hpp,
// or Python's fastprof), and costs one load and a branch a range while nobody records.
//
//   #include <fastprof/annotate.hpp>   // link: -pthread -ldl
//   void step() {
//     FASTPROF_FUNCTION();
//     FASTPROF_RANGE_ARGS("load", "batch", 32);
//   }
#pragma once

#include "fastprof/macros.hpp"
#include "fastprof/primitives/record_function_macros.hpp"

#if !defined(FASTPROF_DISABLE)
#include "fastprof/primitives/report_memory.hpp"
#include "fastprof/recorder/memory.hpp"
#include "fastprof/recorder/signal_scope.hpp"
#include "fastprof/recorder/thread.hpp"
#endif
