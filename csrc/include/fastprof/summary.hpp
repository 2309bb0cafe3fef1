// SPDX-License-Identifier: Apache-2.0
// Summary: one row per name of a capture, and its printed table. session.summary() needs it.
#pragma once

#if !defined(FASTPROF_DISABLE)
// A user's macros min and max are out of the way, for the standard headers too.
#pragma push_macro("min")
#pragma push_macro("max")
#undef min
#undef max

#include "fastprof/capture/summary.hpp"
#include "fastprof/session/session.hpp"

FASTPROF_NAMESPACE_BEGIN

template <>
struct SummaryOf<Capture> {
  static Summary make(const Capture& capture) { return summarise(capture); }
};

FASTPROF_NAMESPACE_END

#pragma pop_macro("min")
#pragma pop_macro("max")
#endif
