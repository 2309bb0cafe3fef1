// SPDX-License-Identifier: Apache-2.0
// Options of the Metal profiler: what is traced as signposts and what is logged, with the names and
// bit values of PyTorch's MPSProfiler, their validation, and the environment variables that set
// them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

// How signposts are traced. Bits 0 to 5.
enum ProfileOptions : uint32_t {
  OPTIONS_NONE = 0,
  ALL_SIGNPOST_EVENTS = 1u << 0,        // every type, as events
  ALL_SIGNPOST_INTERVALS = 1u << 1,     // every type, as intervals
  WAIT_UNTIL_COMPLETED = 1u << 2,       // each end commits and waits for the command buffer
  INCLUDE_SCHEDULE_INTERVAL = 1u << 3,  // intervals begin at the call, not when scheduled
  USE_INTERVALS = 1u << 4,              // the chosen types, as intervals
  USE_EVENTS = 1u << 5,                 // the chosen types, as events
  OPTIONS_COUNT = (USE_EVENTS << 1) - 1,
};

// Which work is traced as signposts. Bits 16 to 18, so that they share a word with ProfileOptions.
enum SignpostTypes : uint32_t {
  SIGNPOST_NONE = 0,
  RUN_OPERATION = 1u << 16,  // kernels and graphs
  BLIT_COPY = 1u << 17,
  CPU_FALLBACK = 1u << 18,
  SIGNPOST_COUNT = (CPU_FALLBACK << 1) - 1,
};

// What is logged to standard error. Bits 0 to 9.
enum LogOptions : uint32_t {
  LOG_NONE = 0,
  OPERATION_INFO = 1u << 0,       // a line for each run of a kernel or graph
  COPY_INFO = 1u << 1,            // a line for each copy
  CPU_FALLBACK_INFO = 1u << 2,    // a line for each fallback
  ALL_STATS = 1u << 3,            // the three tables below
  OPERATION_STATS = 1u << 4,      // a table at exit
  COPY_STATS = 1u << 5,           // a table at exit
  CPU_FALLBACK_STATS = 1u << 6,   // a table at exit
  INCLUDE_GPU_TIME = 1u << 7,     // lines at the end of the work, with its GPU time
  INCLUDE_KERNEL_TIME = 1u << 8,  // the same, with the scheduling time by itself
  INCLUDE_BUFFER_ID = 1u << 9,    // numbers of buffers in descriptions of tensors
  LOG_COUNT = (INCLUDE_BUFFER_ID << 1) - 1,
};

// A set of all three. Values are sums of the enumerators above.
struct Options {
  uint32_t profile = OPTIONS_NONE;
  uint32_t signposts = SIGNPOST_NONE;
  uint32_t log = LOG_NONE;

  // Whether runs, copies or fallbacks have to be observed for signposts, lines or tables.
  constexpr bool operations() const noexcept {
    return (signposts & RUN_OPERATION) != 0 || (log & (OPERATION_INFO | OPERATION_STATS)) != 0;
  }
  constexpr bool copies() const noexcept {
    return (signposts & BLIT_COPY) != 0 || (log & (COPY_INFO | COPY_STATS)) != 0;
  }
  constexpr bool fallbacks() const noexcept {
    return (signposts & CPU_FALLBACK) != 0 || (log & (CPU_FALLBACK_INFO | CPU_FALLBACK_STATS)) != 0;
  }
  constexpr bool signpost_tracing() const noexcept { return signposts != SIGNPOST_NONE; }
  constexpr bool statistics() const noexcept {
    return (log & (OPERATION_STATS | COPY_STATS | CPU_FALLBACK_STATS)) != 0;
  }
};

namespace options_detail {

struct Named {
  const char* name;
  uint32_t value;
};
constexpr Named kTraceNames[] = {{"ALL_SIGNPOST_EVENTS", ALL_SIGNPOST_EVENTS},
                                 {"ALL_SIGNPOST_INTERVALS", ALL_SIGNPOST_INTERVALS},
                                 {"WAIT_UNTIL_COMPLETED", WAIT_UNTIL_COMPLETED},
                                 {"INCLUDE_SCHEDULE_INTERVAL", INCLUDE_SCHEDULE_INTERVAL},
                                 {"USE_INTERVALS", USE_INTERVALS},
                                 {"USE_EVENTS", USE_EVENTS},
                                 {"RUN_OPERATION", RUN_OPERATION},
                                 {"BLIT_COPY", BLIT_COPY},
                                 {"CPU_FALLBACK", CPU_FALLBACK}};
constexpr Named kLogNames[] = {
    {"OPERATION_INFO", OPERATION_INFO},           {"COPY_INFO", COPY_INFO},
    {"CPU_FALLBACK_INFO", CPU_FALLBACK_INFO},     {"ALL_STATS", ALL_STATS},
    {"OPERATION_STATS", OPERATION_STATS},         {"COPY_STATS", COPY_STATS},
    {"CPU_FALLBACK_STATS", CPU_FALLBACK_STATS},   {"INCLUDE_GPU_TIME", INCLUDE_GPU_TIME},
    {"INCLUDE_KERNEL_TIME", INCLUDE_KERNEL_TIME}, {"INCLUDE_BUFFER_ID", INCLUDE_BUFFER_ID}};

[[noreturn]] inline void refuse(const char* what, const std::string& value, const char* where,
                                const char* remedy) {
  raise<ValueError>(std::string("invalid ") + what + " " + value + " in " + where + ": " + remedy);
}

inline std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

// The sum that a text stands for: a number as strtol reads it (decimal, 0x.., 0..), or names joined
// by ',' or '|'. Raises ValueError for anything else.
template <size_t Count>
uint32_t parse_sum(std::string_view text, const Named (&names)[Count], const char* where) {
  const std::string whole = trimmed(text);
  if (whole.empty()) return 0;
  char* end = nullptr;
  const unsigned long long number = std::strtoull(whole.c_str(), &end, 0);
  if (*end == 0 && whole[0] != '-') {
    if (number > UINT32_MAX) refuse("options", whole, where, "the number has more than 32 bits");
    return static_cast<uint32_t>(number);
  }
  uint32_t sum = 0;
  for (size_t at = 0; at <= whole.size();) {
    const size_t stop = std::min(whole.find_first_of(",|", at), whole.size());
    const std::string name = trimmed(std::string_view(whole).substr(at, stop - at));
    at = stop + 1;
    if (name.empty()) continue;
    bool known = false;
    for (const Named& each : names)
      if (name == each.name) sum |= each.value, known = true;
    if (!known) refuse("option", "'" + name + "'", where, "use a number, or names joined by ','");
  }
  return sum;
}

}  // namespace options_detail

// Raises ValueError if a set has bits that stand for nothing. `where` names the source of the
// options in the message.
inline void check_options(const Options& options, const char* where) {
  using options_detail::refuse;
  if ((options.log & ~uint32_t{LOG_COUNT}) != 0)
    refuse("log options", std::to_string(options.log), where, "use bits 0 to 9 (LogOptions)");
  if ((options.profile & ~uint32_t{OPTIONS_COUNT}) != 0)
    refuse("profiling options", std::to_string(options.profile), where,
           "use bits 0 to 5 (ProfileOptions)");
  constexpr uint32_t types = RUN_OPERATION | BLIT_COPY | CPU_FALLBACK;
  if ((options.signposts & ~types) != 0)
    refuse("signpost types", std::to_string(options.signposts), where,
           "use bits 16 to 18 (SignpostTypes)");
}

// Returns the options with everything that they imply: ALL_* become their types or tables, types
// without a way become intervals, events report GPU times. Raises ValueError as check_options()
// does, and for INCLUDE_SCHEDULE_INTERVAL with events alone.
inline Options resolve_options(Options options, const char* where) {
  check_options(options, where);
  uint32_t& profile = options.profile;
  if (options.signposts == SIGNPOST_NONE && (profile & INCLUDE_SCHEDULE_INTERVAL) != 0)
    profile |= ALL_SIGNPOST_INTERVALS;
  if ((profile & (ALL_SIGNPOST_EVENTS | ALL_SIGNPOST_INTERVALS)) != 0) {
    options.signposts |= RUN_OPERATION | BLIT_COPY | CPU_FALLBACK;
    if ((profile & ALL_SIGNPOST_EVENTS) != 0) profile |= USE_EVENTS;
    if ((profile & ALL_SIGNPOST_INTERVALS) != 0) profile |= USE_INTERVALS;
  }
  if ((options.log & ALL_STATS) != 0)
    options.log |= OPERATION_STATS | COPY_STATS | CPU_FALLBACK_STATS;
  if (options.signposts != SIGNPOST_NONE) {
    if ((profile & (USE_EVENTS | USE_INTERVALS)) == 0) profile |= USE_INTERVALS;
    if ((profile & INCLUDE_SCHEDULE_INTERVAL) != 0 && (profile & USE_INTERVALS) == 0)
      options_detail::refuse("profiling options", "INCLUDE_SCHEDULE_INTERVAL", where,
                             "an event has no interval; add USE_INTERVALS");
    // An event is emitted when its work ends, and shows the GPU time in place of a duration.
    if ((profile & USE_EVENTS) != 0) options.log |= INCLUDE_GPU_TIME;
  }
  return options;
}

// Returns the bits of a mode, "interval", "event" or both joined by a comma. Raises ValueError for
// other words, and if there is none.
inline uint32_t parse_mode(std::string_view mode) {
  uint32_t profile = OPTIONS_NONE;
  for (size_t at = 0; at <= mode.size();) {
    const size_t stop = std::min(mode.find(',', at), mode.size());
    const std::string word = options_detail::trimmed(mode.substr(at, stop - at));
    at = stop + 1;
    if (word.empty()) continue;
    if (word == "interval")
      profile |= ALL_SIGNPOST_INTERVALS;
    else if (word == "event")
      profile |= ALL_SIGNPOST_EVENTS;
    else
      raise<ValueError>("invalid signpost trace mode '" + word +
                        "': use interval, event, or interval,event");
  }
  if (profile == OPTIONS_NONE)
    raise<ValueError>("the signpost trace mode is empty: use interval, event, or interval,event");
  return profile;
}

// Returns the options that the environment asks for, resolved. FASTPROF_METAL_TRACE_SIGNPOSTS and
// FASTPROF_METAL_LOG_PROFILE_INFO come before PYTORCH_MPS_TRACE_SIGNPOSTS and
// PYTORCH_MPS_LOG_PROFILE_INFO. Each is a number or names of enumerators: of ProfileOptions and
// SignpostTypes, and of LogOptions. Raises ValueError, naming the variable.
inline Options options_of_environment() {
  const auto variable = [](const char* ours,
                           const char* theirs) -> std::pair<const char*, const char*> {
    const char* value = std::getenv(ours);
    return value != nullptr ? std::pair{ours, value} : std::pair{theirs, std::getenv(theirs)};
  };
  Options options;
  const auto [trace, trace_text] =
      variable("FASTPROF_METAL_TRACE_SIGNPOSTS", "PYTORCH_MPS_TRACE_SIGNPOSTS");
  const auto [log, log_text] =
      variable("FASTPROF_METAL_LOG_PROFILE_INFO", "PYTORCH_MPS_LOG_PROFILE_INFO");
  if (trace_text != nullptr) {
    const uint32_t sum = options_detail::parse_sum(trace_text, options_detail::kTraceNames, trace);
    options.profile = sum & 0xFFFFu;
    options.signposts = sum & 0xFFFF0000u;
  }
  check_options(options, trace);
  if (log_text != nullptr)
    options.log = options_detail::parse_sum(log_text, options_detail::kLogNames, log);
  Options logged;
  logged.log = options.log;
  check_options(logged, log);
  return resolve_options(options, trace);
}

}  // namespace metal
FASTPROF_NAMESPACE_END
