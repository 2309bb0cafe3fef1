// SPDX-License-Identifier: Apache-2.0
// What tests of a backing file on a State of their own share: opening it and reading it.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "backing_file_checks.hpp"
#include "private_state.hpp"

namespace backing_store_checks {

namespace fp = fastprof;

// Brings the file into force for session slot 5.
inline void open_file(fp::State* s, const std::string& path) {
  const fp::OpenedFile opened = fp::open_backing_file(s, path.c_str());
  CHECK_EQ(opened.error, 0);
  CHECK(opened.fd >= 0 && opened.segment != nullptr);
  CHECK(fp::enforce_file(s, opened, 5));
}

template <class T>
T read_at(const std::string& path, uint64_t offset) {
  T value{};
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  CHECK_EQ(::pread(fd, &value, sizeof value, static_cast<off_t>(offset)), sizeof value);
  ::close(fd);
  return value;
}

inline int64_t size_of(const std::string& path) {
  struct stat facts;
  return ::stat(path.c_str(), &facts) == 0 ? int64_t{facts.st_size} : -1;
}

}  // namespace backing_store_checks
