// SPDX-License-Identifier: Apache-2.0
// What tests of spilling share: a limit of what can be written, and what a file contains.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fastprof/session/spill.hpp"
#include "recorder_checks.hpp"

namespace spill_checks {

namespace fp = fastprof;

constexpr size_t kSlots = 2725;  // of a chunk: (65536 - 128) / 24

// Files that this process writes may be this long, while it exists.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    CHECK_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_;
};

inline bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) != -1;
}

// The descriptor that a file gets that is opened next.
inline int next_descriptor() {
  const int fd = ::dup(STDERR_FILENO);
  ::close(fd);
  return fd;
}

inline size_t units_in(fp::SpillFile& file, uint64_t* lost = nullptr) {
  size_t units = 0;
  uint64_t missing = 0;
  const bool whole = file.read_back(
      [&units](const fp::TrackInfo&, const fp::PinnedRun& run) {
        units += static_cast<size_t>(run.end - fp::chunk_slots(run.chunk));
      },
      missing);
  CHECK_EQ(whole, missing == 0);
  if (lost != nullptr) *lost = missing;
  return units;
}

}  // namespace spill_checks
