// SPDX-License-Identifier: Apache-2.0
// The Metal profiler for programs with Metal code of their own: begin and end functions, signposts,
// statistics, captures of GPU work, and rows in sessions. docs/metal.md has an example.
//
// Apple's frameworks are not included: csrc/backends/metal/metal_platform.mm is the Platform that
// calls them, to be compiled into the program.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/session.hpp"

#if !defined(FASTPROF_DISABLE)
#pragma push_macro("min")
#pragma push_macro("max")
#undef min
#undef max

#include "fastprof/metal/command_buffers.hpp"
#include "fastprof/metal/exit_report.hpp"
#include "fastprof/metal/gpu_capture.hpp"
#include "fastprof/metal/profiler.hpp"
#include "fastprof/session/metal_activities.hpp"
#include "fastprof/session/range_signposts.hpp"

#pragma pop_macro("min")
#pragma pop_macro("max")
#endif
