// SPDX-License-Identifier: Apache-2.0
// Everything in fastprof: annotation macros, Session, summary, trace writers, memory reporting and
// the exclusive profiler. A program that records itself includes this.
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
// Hide the user's macros min and max from the headers below, the standard ones among them.
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
