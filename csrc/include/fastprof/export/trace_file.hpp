// SPDX-License-Identifier: Apache-2.0
// TraceFile: a file written atomically; it appears under its name only when complete.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN

inline std::atomic<unsigned> trace_file_counter{0};

// Writes to a temporary file next to `path`, which commit() renames to `path`; until then, and
// after any failure, `path` is unchanged. Symbolic links are followed. Anything but a regular file
// (a pipe, /dev/stdout) is written directly. A replaced file keeps its mode; a new file's mode
// follows the umask. Not thread-safe.
class TraceFile {
 public:
  // Raises IoError if the file cannot be created.
  explicit TraceFile(const std::string& path) : path_(path) {
    struct stat existing;
    const bool exists = ::stat(path.c_str(), &existing) == 0;
    if (exists && !S_ISREG(existing.st_mode)) {
      fd_ = open_retrying(path.c_str(), O_WRONLY | O_CLOEXEC, 0);
      if (fd_ < 0) fail("open", errno);
      return;
    }
    if (exists) {
      if (char* real = ::realpath(path.c_str(), nullptr)) {
        path_ = real;
        ::free(real);
      }
    }
    // Created with the mode of the file it replaces, so that users who may not read that file
    // cannot read the temporary one. For a new file the umask applies.
    const mode_t mode = exists ? existing.st_mode & 0777 : 0666;
    // The name is cut, because file systems limit it to 255 bytes; at a whole character, because
    // some refuse others.
    size_t end = path_.rfind('/') + 1 + 64;  // npos + 1 is 0
    while (end < path_.size() && (path_[end] & 0xC0) == 0x80) --end;
    const std::string stem = path_.substr(0, end);
    for (int attempt = 0; attempt < 100; ++attempt) {
      // O_EXCL guarantees a new file even if a process in another pid namespace has the same pid.
      temporary_ = stem + ".part-" + std::to_string(::getpid()) + '-' +
                   std::to_string(trace_file_counter.fetch_add(1, std::memory_order_relaxed));
      fd_ = open_retrying(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      if (fd_ >= 0 || errno != EEXIST) break;
    }
    if (fd_ < 0) {
      const int error = errno;
      temporary_.clear();
      fail("create", error);
    }
    if (exists) static_cast<void>(::fchmod(fd_, mode));  // the umask may have cleared bits
  }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile() { discard(); }

  // Writes all bytes. Returns false after an error, which commit() raises.
  bool write(const char* data, size_t size) noexcept {
    while (size > 0 && error_ == 0) {
      const ssize_t done = ::write(fd_, data, size);
      if (done > 0) {
        data += done;
        size -= static_cast<size_t>(done);
      } else if (done < 0 && errno != EINTR) {
        error_ = errno;
      }
    }
    return error_ == 0;
  }

  // Abandons the file: later writes are discarded and commit() raises.
  void cancel() noexcept {
    if (error_ == 0) error_ = ECANCELED;
  }

  // Renames the file to `path`. Raises IoError if this or an earlier write failed; the temporary
  // file is then deleted.
  void commit() {
    if (error_ == 0 && ::close(fd_) != 0 && errno != EINTR) error_ = errno;
    if (error_ == 0) fd_ = -1;
    if (error_ == 0 && !temporary_.empty() && ::rename(temporary_.c_str(), path_.c_str()) != 0) {
      error_ = errno;
    }
    if (error_ != 0) {
      const int error = error_;
      discard();
      fail("write", error);
    }
    temporary_.clear();
  }

 private:
  static int open_retrying(const char* path, int flags, mode_t mode) noexcept {
    int fd;
    do {
      fd = ::open(path, flags, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
  }
  void discard() noexcept {
    if (fd_ >= 0) static_cast<void>(::close(fd_));
    if (!temporary_.empty()) static_cast<void>(::unlink(temporary_.c_str()));
    fd_ = -1;
    temporary_.clear();
  }
  [[noreturn]] void fail(const char* what, int error) const {
    const char* remedy = error == ENOSPC || error == EDQUOT || error == EFBIG
                             ? "Free space, or choose another path."
                             : "Choose another path.";
    raise<IoError>(std::string("cannot ") + what + " '" + path_ + "': " + std::strerror(error) +
                   ". No partial file was left. " + remedy);
  }

  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  int error_ = 0;
};

FASTPROF_NAMESPACE_END
