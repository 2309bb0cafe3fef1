// SPDX-License-Identifier: Apache-2.0
// FlightRecorder: a Session that overwrites its oldest records in a file of the user's private
// folder, where the command fastprof finds it. python/fastprof/flight_recorder has the same for
// Python, with triggers; record/process_folder.py has the names of the files.
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/base/json_escape.hpp"
#include "fastprof/platform/files.hpp"
#include "fastprof/platform/process.hpp"
#include "fastprof/session/copy_backing_file.hpp"
#include "fastprof/session/session.hpp"

FASTPROF_NAMESPACE_BEGIN

// Options of a FlightRecorder.
struct FlightOptions {
  uint64_t max_bytes = uint64_t{64} << 20;  // of the records; at least 4 MB
  double seconds = 30;                      // how much of them a dump shows
  uint32_t categories = category::all;      // category bits to record
  bool cpp_stacks = false;                  // record native return addresses of each range
  std::vector<std::pair<std::string, std::string>> metadata;  // of the process, for readers
};

namespace flying {

// Makes the folder if it is absent. Returns why it cannot be used; null if it can.
inline const char* make_private(const std::string& path) noexcept {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return std::strerror(errno);
  struct stat facts;
  if (::lstat(path.c_str(), &facts) != 0) return std::strerror(errno);
  if (!S_ISDIR(facts.st_mode)) return "it is not a folder";
  if (facts.st_uid != ::geteuid()) return "it belongs to another user";
  return (facts.st_mode & 077) != 0 ? "others can read or write it; chmod 700 it" : nullptr;
}

// The folder of this user's processes: $FASTPROF_PROCESS_FOLDER, or fastprof-UID in memory if
// twice `bytes` are free there, else among the temporary files.
inline std::string process_folder(uint64_t bytes) {
  std::vector<std::string> folders;
  if (const char* chosen = std::getenv("FASTPROF_PROCESS_FOLDER")) {
    folders.emplace_back(chosen);
  } else {
    const std::string name = "/fastprof-" + std::to_string(::geteuid());
    const char* memory = platform::folder_in_memory();
    struct statvfs facts;
    if (memory != nullptr && ::statvfs(memory, &facts) == 0 &&
        uint64_t{facts.f_bavail} * facts.f_frsize >= 2 * bytes)
      folders.push_back(memory + name);
    const char* given = std::getenv("TMPDIR");
    folders.push_back((given != nullptr && *given != 0 ? given : "/tmp") + name);
  }
  std::string reasons;
  for (const std::string& folder : folders) {
    const char* problem = make_private(folder);
    if (problem == nullptr) return folder;
    reasons += (reasons.empty() ? "" : "; ") + folder + ": " + problem;
  }
  raise<UnavailableError>("no folder for the files of this process (" + reasons +
                          "). Set FASTPROF_PROCESS_FOLDER to a folder of your own with mode 0700.");
}

// An unused path for the records of this process.
inline std::string new_records(const std::string& folder) {
  const std::string stem =
      folder + "/" + std::to_string(::getpid()) + "-" + std::to_string(platform::process_start());
  for (unsigned number = 1;; ++number) {
    std::string path =
        stem + "-" + std::to_string(number) + "-" + std::to_string(::getppid()) + ".records";
    if (::access(path.c_str(), F_OK) != 0) return path;
  }
}

inline SessionOptions session_options(const FlightOptions& options) {
  if (options.max_bytes < uint64_t{4} << 20)
    raise<ValueError>("a flight recorder needs max_bytes of 4 MB or more");
  if (!(options.seconds > 0 && options.seconds <= 1e9))
    raise<ValueError>("a flight recorder needs seconds above 0, at most 1e9");
  SessionOptions made;
  made.categories = options.categories;
  made.max_bytes = options.max_bytes;
  made.overflow = OverflowPolicy::overwrite_oldest;
  made.cpp_stacks = options.cpp_stacks;
  made.backing_file = new_records(process_folder(options.max_bytes));
  made.backing_metadata = options.metadata;
  return made;
}

}  // namespace flying

// Records from its construction until its destruction. The file is removed at the end, and stays if
// the process ends in any other way. Ordinary sessions may run meanwhile; one session of a process
// has a backing file at a time, so that of a Python profile or recorder excludes it. Any thread may
// call dump(). A forked child has no recorder: construct one there.
class FlightRecorder {
 public:
  // Throws ValueError for max_bytes below 4 MB and for seconds that are not above 0,
  // UnavailableError if there is no folder for the file, and what Session::start() throws.
  explicit FlightRecorder(const FlightOptions& options = {})
      : seconds_(options.seconds), made_(flying::session_options(options)), session_(made_) {
    session_.start();
  }
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // The path of the records.
  const std::string& records() const noexcept { return made_.backing_file; }

  // Writes a copy of the records to the new file `path`, which `fastprof report` and recover()
  // read. It takes milliseconds, and no other thread waits. `reason` and `detail` say why. Throws
  // IoError if a file cannot be read or written.
  BackingCopy dump(const std::string& path, const std::string& reason,
                   const std::string& detail = {}) const {
    std::string seconds;
    append_digits(seconds, seconds_);
    std::vector<std::pair<std::string, std::string>> facts = {{"reason", reason},
                                                              {"seconds", seconds}};
    if (!detail.empty()) facts.emplace_back("detail", detail);
    return copy_backing_file(records(), path, facts);
  }

 private:
  double seconds_;
  SessionOptions made_;
  Session session_;
};

FASTPROF_NAMESPACE_END
