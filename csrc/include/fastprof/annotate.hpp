// SPDX-License-Identifier: Apache-2.0
// Annotations: include this in a library or program to be profiled. It declares ranges, marks,
// counters, flows, async ranges, memory reports and RecordFunction.
//
// It is light to compile, and sufficient by itself: when the library is loaded, it joins the
// process's recorder, no matter whether the code that owns the Session (session.hpp, fastprof.hpp
// or Python's fastprof) is loaded before or after it. While nothing records, a range costs one load
// and one branch.
//
// What it includes copies by the compiler's builtins (__builtin_memcpy): <cstring> would be 470 of
// the 20,000 lines that a file with one range may have (tests/cpp/codegen/test_header_cost.py).
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
#include "fastprof/recorder/hot_path/memory.hpp"
#include "fastprof/recorder/hot_path/signal_scope.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"
#endif
