// SPDX-License-Identifier: Apache-2.0
// Session: starts and stops recording of the whole process's annotations, and reads the result.
//
//   #include <fastprof/session.hpp>   // link: -pthread -ldl
//   fastprof::Session session;
//   session.start();
//   work();
//   session.stop();
//   for (const fastprof::EventView event : session.events()) std::puts(event.name().c_str());
//
// session.summary(), session.write_chrome_trace() and session.write_perfetto_trace() need headers
// of their own: summary.hpp, chrome_trace.hpp, perfetto_trace.hpp. fastprof.hpp includes all three.
#pragma once

#include "fastprof/annotate.hpp"

#if !defined(FASTPROF_DISABLE)
// Hide the user's macros min and max from the headers below, the standard ones among them.
#pragma push_macro("min")
#pragma push_macro("max")
#undef min
#undef max

#include "fastprof/session/session.hpp"

#pragma pop_macro("min")
#pragma pop_macro("max")
#endif
