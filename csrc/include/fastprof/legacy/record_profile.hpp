// SPDX-License-Identifier: Apache-2.0
// RecordProfile: profiles a scope in state CPU and writes its Chrome trace.
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

// The destructor ends the profile and writes it as write_events does; it never throws: what goes
// wrong, a file that could not be opened included, is told on stderr. One thread.
class RecordProfile {
 public:
  // Into a stream, which must outlive this.
  explicit RecordProfile(std::ostream& out) : out_(&out) { enable_profiler(ProfilerConfig()); }
  // Into a file, created or overwritten now.
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
      tell(error.what());
    } catch (...) {
      tell("the events could not be written");
    }
#else
    write(lists);
#endif
  }

  RecordProfile(const RecordProfile&) = delete;
  RecordProfile& operator=(const RecordProfile&) = delete;

 private:
  static void tell(const char* what) noexcept {
    std::fprintf(stderr, "fastprof: RecordProfile: %s\n", what);
  }
  // May throw what a stream with exceptions on throws.
  void write(const LegacyEventLists& lists) {
    if (const char* fault = legacy_detail::try_write_events(*out_, lists).message) tell(fault);
  }

  std::unique_ptr<std::ofstream> file_;
  std::ostream* out_;
};

FASTPROF_NAMESPACE_END
