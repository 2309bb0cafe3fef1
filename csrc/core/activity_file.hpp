// SPDX-License-Identifier: Apache-2.0
// Activity file: the device activities of a process, next to its backing file
// (docs/backing_file.md).
//
// A file is a sequence of portions, each written by one system call, so that the file of a killed
// process ends with a complete portion, or with part of one, which readers ignore:
//
//   offset 0   8 bytes  magic
//          8   8 bytes  size of the contents in bytes
//         16   8 bytes  checksum of the contents (FNV-1a)
//         24            contents
//
// Numbers have the byte order of the machine: files are read where they were written. Contents are
// the name of the backend, empty for an end mark, and one Activities.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/session/activities.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {

// Writes portions. One thread at a time. After a failed write, further portions are ignored and
// problem() describes the failure.
class ActivityFileWriter {
 public:
  // Creates the file. Throws IoError if it exists or cannot be created.
  explicit ActivityFileWriter(const std::string& path);
  ~ActivityFileWriter();
  ActivityFileWriter(const ActivityFileWriter&) = delete;
  ActivityFileWriter& operator=(const ActivityFileWriter&) = delete;

  // Appends a portion, unless it has neither rows nor dropped activities.
  void add(const std::string& backend, const Activities& activities);
  // Appends the end mark and closes the file. Later calls do nothing.
  void finish();
  // Returns why portions are missing; empty if none are.
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
  uint64_t damaged_bytes = 0;           // after the last complete portion
};

// Reads a file, which need not be valid. max_bytes: limit of its size. Throws IoError if it cannot
// be read or is larger.
ActivityFile read_activity_file(const std::string& path, uint64_t max_bytes);

// Returns whether a file ends with the end mark; false if it cannot be read. Reads a few bytes.
bool activity_file_ended(const std::string& path);

// Appends `more` to `all`, merging their lists of sites, places and texts. Both must have the
// correlations of one process.
void append_activities(Activities& all, const Activities& more);

}  // namespace devices
FASTPROF_NAMESPACE_END
