// SPDX-License-Identifier: Apache-2.0
// RecordProfile: profiles a scope in state CPU and writes a Chrome trace.
#pragma once

#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <ostream>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/legacy/tls_profiler_guard.hpp"
#include "fastprof/legacy/write_events.hpp"

FASTPROF_NAMESPACE_BEGIN

// The constructor enables the profiler and raises as enable_profiler does; the destructor disables
// it and writes the trace as write_events does. The destructor never throws: errors, including a
// file that could not be opened, are reported on stderr. Use on one thread.
class RecordProfile {
 public:
  // Writes to a stream, which must outlive this object.
  explicit RecordProfile(std::ostream& out) : out_(&out) { enable_profiler(ProfilerConfig()); }
  // Writes to a file, which is created or truncated now.
  explicit RecordProfile(const std::string& path)
      : file_(std::make_unique<std::ofstream>(path, std::ios::binary)), out_(file_.get()) {
    enable_profiler(ProfilerConfig());
  }

  ~RecordProfile() {
    LegacyEventLists lists;
    if (!legacy_detail::disable_quietly({}, &lists, "RecordProfile")) return;
#if FASTPROF_EXCEPTIONS
    try {
      write(lists);
    } catch (const std::exception& error) {
      warn(error.what());
    } catch (...) {
      warn("the events could not be written");
    }
#else
    write(lists);
#endif
  }

  RecordProfile(const RecordProfile&) = delete;
  RecordProfile& operator=(const RecordProfile&) = delete;

 private:
  static void warn(const char* what) noexcept {
    std::fprintf(stderr, "fastprof: RecordProfile: %s\n", what);
  }
  // May throw if exceptions are enabled on the stream.
  void write(const LegacyEventLists& lists) {
    if (const char* fault = legacy_detail::try_write_events(*out_, lists).message) warn(fault);
  }

  std::unique_ptr<std::ofstream> file_;
  std::ostream* out_;
};

FASTPROF_NAMESPACE_END
