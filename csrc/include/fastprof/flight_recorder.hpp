// SPDX-License-Identifier: Apache-2.0
// FlightRecorder: the last seconds of this process in a file of fixed size that outlives it
// (docs/always_on.md).
//
//   fastprof::FlightRecorder recorder;      // records from here on
//   ...
//   recorder.dump("slow.flight", "slow request");
//
//   $ fastprof ps                           # finds the process; fastprof dump PID reads its records
#pragma once

#include "fastprof/session.hpp"

// Hide the user's macros min and max from the headers below, the standard ones among them.
#pragma push_macro("min")
#pragma push_macro("max")
#undef min
#undef max

#include "fastprof/session/flight_recorder.hpp"

#pragma pop_macro("min")
#pragma pop_macro("max")
