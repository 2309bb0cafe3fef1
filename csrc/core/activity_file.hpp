// SPDX-License-Identifier: Apache-2.0
// Activity file: what devices did for a process, beside its backing file (docs/backing_file.md).
//
// A file is a sequence of portions, each written by one system call, so that the file of a killed
// process ends with a whole portion or with a part of one, which is not read:
//
//   8 bytes  magic, 8 bytes  size of the contents, 8 bytes  their checksum (FNV-1a), contents
//
// Numbers are as the machine has them: files are read on the machine that wrote them. Contents
// begin with the name of the backend, which an end mark leaves empty, and are one Activities.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/session/activities.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {

// Writes portions. One thread at a time. A file that cannot be written any more takes no further
// portions, and problem() says why.
class ActivityFileWriter {
 public:
  // Creates the file; throws IoError if it exists or cannot be made.
  explicit ActivityFileWriter(const std::string& path);
  ~ActivityFileWriter();
  ActivityFileWriter(const ActivityFileWriter&) = delete;
  ActivityFileWriter& operator=(const ActivityFileWriter&) = delete;

  // Appends a portion, unless it has no rows and lost none.
  void add(const std::string& backend, const Activities& activities);
  // Appends the end mark and closes the file. No effect when called again.
  void finish();
  // Empty, or why portions are missing.
  const std::string& problem() const noexcept { return problem_; }

 private:
  void write_portion(const std::string& contents);

  std::string path_;
  int descriptor_ = -1;
  std::string problem_;
};

// What a file contains.
struct ActivityFile {
  std::vector<Activities> of_backends;  // all portions of each backend
  bool ended = false;                   // its process wrote the end mark
  uint64_t damaged_bytes = 0;           // behind the last whole portion
};

// Reads a file, which is not trusted. Throws IoError if it cannot be read. `max_bytes`: limit of
// its size.
ActivityFile read_activity_file(const std::string& path, uint64_t max_bytes);

// Whether a file ends with the end mark. Reads a few bytes. False if it cannot be read.
bool activity_file_ended(const std::string& path);

// Appends `more` to `all`: rows of both refer to one list of sites, places and texts, and
// correlations are those of one process.
void append_activities(Activities& all, const Activities& more);

}  // namespace devices
FASTPROF_NAMESPACE_END
