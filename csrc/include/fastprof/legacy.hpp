// SPDX-License-Identifier: Apache-2.0
// The exclusive profiler (PyTorch's legacy profiler): enable_profiler, disable_profiler and their
// types. fastprof.hpp includes it.
//
//   #include <fastprof/fastprof.hpp>   // link: -pthread -ldl
//   fastprof::enable_profiler(fastprof::ProfilerConfig());
//   { fastprof::RecordFunction function; function.before("step"); work(); }
//   fastprof::write_events(std::cout, fastprof::disable_profiler());
#pragma once

#include "fastprof/leader/attach.hpp"
#include "fastprof/legacy/cpp_stack_provider.hpp"
#include "fastprof/legacy/device_stubs.hpp"
#include "fastprof/legacy/event_bytes.hpp"
#include "fastprof/legacy/event_json.hpp"
#include "fastprof/legacy/legacy_profiler.hpp"
#include "fastprof/legacy/record_profile.hpp"
#include "fastprof/legacy/stack_provider.hpp"
#include "fastprof/legacy/tls_profiler_guard.hpp"
#include "fastprof/legacy/write_events.hpp"
