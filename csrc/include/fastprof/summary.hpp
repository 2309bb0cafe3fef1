// SPDX-License-Identifier: Apache-2.0
// Summary: a table with one row per range name. Include it to call session.summary(), which returns
// it; std::ostream's << prints it.
#pragma once

#if !defined(FASTPROF_DISABLE)
// Hide the user's macros min and max from the headers below, the standard ones among them.
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
