// SPDX-License-Identifier: Apache-2.0
// NativeSampler: where the time of a C++ program is, by samples of the stacks of all its threads.
// Needs no annotations and no session. docs/cpp.md has an example.
#pragma once

#if !defined(FASTPROF_DISABLE)
// Hide the user's macros min and max from the headers below, the standard ones among them.
#pragma push_macro("min")
#pragma push_macro("max")
#undef min
#undef max

#include "fastprof/sampling/native_sampler.hpp"

#pragma pop_macro("min")
#pragma pop_macro("max")
#endif
