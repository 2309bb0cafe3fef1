// SPDX-License-Identifier: Apache-2.0
// SessionOptions: what a Session records, how much memory it may take and where its records lie.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/recorder/state/state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Options of a Session. The defaults record all categories on all threads.
struct SessionOptions {
  uint32_t categories = category::all;  // category bits to record
  bool thread_local_only = false;  // record only the starting thread and work propagated from it
  // Bound of the session's records in memory, in bytes; 0: min(256 MB, 1/16 of the memory limit).
  uint64_t max_bytes = 0;
  // Bound of names and string arguments made at run time, in bytes, for the whole process; 0: 64
  // MB. Of several running sessions the largest bound applies. At the bound, events get a shared
  // name. A name or string longer than 1/1024 of the bound (but at least 256 bytes, at most 64 KB)
  // is cut and ends in "... [cut: N bytes]". Both are counted as DropCause::names.
  uint64_t max_name_bytes = 0;
  // At max_bytes: drop new events, overwrite the oldest ones, or move records to a file.
  OverflowPolicy overflow = OverflowPolicy::drop_newest;
  bool include_open = false;  // also list ranges that were open at start (flag `enclosing`)
  std::string spill_folder;   // for spill_to_file; empty: $TMPDIR, or the system's temporary folder
  std::vector<std::string>
      counters;             // perf counters read around each range, up to 4 (see counter_names.hpp)
  bool cpp_stacks = false;  // record native return addresses at the begin of each range
  // Record the stacks that the Python layer provides (State::joined_stack): Python and native
  // frames. Without it there are none.
  bool joined_stacks = false;
  uint32_t max_frames = 32;  // return addresses kept per range, innermost first; at most 128
  // Restart the session, empty, in a forked child: stop() there returns what the child recorded.
  // The parent's session is not affected. Not with counters or spill_to_file.
  bool follow_fork = false;
  // Record the inputs and keyword inputs of RecordFunctions: shapes, element types and values. All
  // other details of RecordFunctions are always recorded.
  bool record_shapes = false;
  // Path of a file to make, in which the records lie while the session runs, so that they can be
  // read if the process is killed (fastprof::recover(), `fastprof recover`). It must not exist; its
  // mode is 0600. Choose a private folder in memory (make_private_folder()): on a disk, writing
  // dirty pages back slows recording down. One session at a time. Records that drain() has read are
  // no longer in the file. Not with spill_to_file.
  std::string backing_file;
  // Keep the file when the session ends, with the time of its end. Default: it is removed.
  bool keep_backing_file = false;
  // Key and value pairs for the file's reader, such as the process's rank or role.
  std::vector<std::pair<std::string, std::string>> backing_metadata;
};

FASTPROF_NAMESPACE_END
