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

#include "fastprof/macros.hpp"
#include "fastprof/primitives/record_function_macros.hpp"

#if !defined(FASTPROF_DISABLE)
#include "fastprof/legacy.hpp"
#include "fastprof/primitives/memory_reporting.hpp"
#include "fastprof/primitives/propagate.hpp"
#include "fastprof/process/attach.hpp"
#include "fastprof/recorder/memory.hpp"
#include "fastprof/recorder/signal_scope.hpp"
#include "fastprof/recorder/thread.hpp"
#include "fastprof/session/session.hpp"
#endif
