// SPDX-License-Identifier: Apache-2.0
// ChromeTraceOptions: options of write_chrome_trace (chrome_trace.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/export/details.hpp"
#include "fastprof/export/trace_output.hpp"

FASTPROF_NAMESPACE_BEGIN

// Options of write_chrome_trace.
struct ChromeTraceOptions {
  // Origin of "ts", in Unix nanoseconds (baseTimeNanoseconds). kAutomaticBase: the last multiple of
  // 7889238 s (three months) before the session, as in Kineto, so that traces of several processes
  // share it and microseconds in a double stay exact to the nanosecond.
  static constexpr int64_t kAutomaticBase = INT64_MIN;
  int64_t base_time_ns = kAutomaticBase;
  // Additional top-level members: name and JSON text. Invalid JSON is written as a string; "_" is
  // appended to a name that is already used.
  std::vector<std::pair<std::string, std::string>> metadata;
  std::string trace_name;  // "traceName"; if empty, the path
  // Optional parts that Kineto writes, for programs that read its files.
  // event_ids: "External id" (row + 1), "Record function id" (0: not requested) and "Ev Idx" (row)
  // of every range; only "Ev Idx" of marks and memory records. About 65 bytes per range; speedscope
  // treats ranges with different args as different functions.
  // window_marks: the slice "PyTorch Profiler (0)" and the marks "Iteration Start: PyTorch
  // Profiler" and "Record Window End", in a separate process.
  // automatic: the part is written if the capture has ranges of category "cpu_op", or rows of a
  // device, which "External id" links to the range that launched them.
  enum class KinetoPart : uint8_t { automatic, never, always };
  KinetoPart event_ids = KinetoPart::automatic;
  KinetoPart window_marks = KinetoPart::automatic;
  // "Python thread" and "Call stack" of calls of Python functions: the number of the thread among
  // those with calls, and the calls around. Kineto writes them on request (verbose). A stack of ten
  // calls takes 400 bytes.
  bool call_stacks = false;
  FrameName frame_name;    // names frames of native stacks; see capture_frame_name
  TraceProgress progress;  // called while a file is written
};

FASTPROF_NAMESPACE_END
