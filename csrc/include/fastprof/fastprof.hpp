// SPDX-License-Identifier: Apache-2.0
// fastprof, whole: annotate with the macros, record with a Session, read, summarise, write traces;
// report memory; the exclusive profiler.
//
//   #include <fastprof/fastprof.hpp>   // link: -pthread -ldl
//   fastprof::Session session;
//   session.start();
//   { FASTPROF_RANGE("step"); work(); }
//   session.stop();
//   std::cout << session.summary();
#pragma once

#include "fastprof/annotate.hpp"

#if !defined(FASTPROF_DISABLE)
// A user's macros min and max are out of the way, for the standard headers too.
#pragma push_macro("min")
#pragma push_macro("max")
#undef min
#undef max

#include "fastprof/chrome_trace.hpp"
#include "fastprof/legacy.hpp"
#include "fastprof/perfetto_trace.hpp"
#include "fastprof/primitives/memory_reporting.hpp"
#include "fastprof/primitives/propagate.hpp"
#include "fastprof/session.hpp"
#include "fastprof/summary.hpp"

#pragma pop_macro("min")
#pragma pop_macro("max")
#endif
