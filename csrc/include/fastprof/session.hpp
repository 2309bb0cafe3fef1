// SPDX-License-Identifier: Apache-2.0
// Session: starts, stops and reads what the annotations of the whole process record.
//
//   #include <fastprof/session.hpp>   // link: -pthread -ldl
//   fastprof::Session session;
//   session.start();
//   work();
//   session.stop();
//   for (const fastprof::EventView event : session.events()) std::puts(event.name().c_str());
//
// Its summary and its trace writers are in headers of their own: summary.hpp, chrome_trace.hpp,
// perfetto_trace.hpp. fastprof.hpp includes all.
#pragma once

#include "fastprof/annotate.hpp"

#if !defined(FASTPROF_DISABLE)
// A user's macros min and max are out of the way, for the standard headers too.
#pragma push_macro("min")
#pragma push_macro("max")
#undef min
#undef max

#include "fastprof/process/attach.hpp"
#include "fastprof/session/session.hpp"

#pragma pop_macro("min")
#pragma pop_macro("max")
#endif
