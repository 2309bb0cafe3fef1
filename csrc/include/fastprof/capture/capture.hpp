// SPDX-License-Identifier: Apache-2.0
// Capture: the events of one session, as columns. Made by the drain or filled by hand; the only
// input of everything after the recorder (summary, trees, trace writers, the Python layer).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/drop_cause.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/capture/column.hpp"
#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN

// Kind of a row. Same numbers as SiteKind.
using EventKind = SiteKind;

// Bits of the flags column.
namespace event_flag {
// The end was recorded in the session; if unset, end_ns is the stop time.
constexpr uint8_t finished = 1;
constexpr uint8_t cross_thread_end = 2;     // ended on another thread: cross_thread_end_track
constexpr uint8_t clock_discontinuity = 4;  // the clock jumped between begin and end
constexpr uint8_t clamped = 8;              // end < begin: the duration was set to 0 ns
constexpr uint8_t enclosing = 16;  // begun before the session; present because of include_open
constexpr uint8_t detail = 32;     // the payload has a DetailHeader after the argument words
// Until assemble() has made the column of it: the row's `payload` is its call_line. In no capture.
constexpr uint8_t call_line = 64;
}  // namespace event_flag

constexpr uint32_t kNoPayload = 0xFFFFFFFFu;
constexpr int32_t kNoParent = -1;

// A site, with its strings copied so that it outlives the library that defined it.
struct SiteInfo {
  std::string name;
  std::string category;  // "user_annotation", "cpu_op", ...
  std::string file;
  std::string function;
  uint32_t line = 0;
  uint32_t color = 0;
  uint32_t mask = category::user;
  EventKind kind = EventKind::range;
  RecordScope scope = RecordScope::USER_SCOPE;
  std::vector<std::string> arg_names;
  std::vector<ArgType> arg_types;
  int16_t device_type = -1;
  int16_t device_index = -1;
};

// Returns whether events of this kind have a begin and an end.
inline bool is_any_range(EventKind kind) noexcept {
  return kind == EventKind::range || kind == EventKind::async_range;
}

// Categories of the rows that say when a task ran: its own, and those of its suspensions
// (session/task_tracks.hpp). Averages leave them out.
constexpr const char* kTaskCategory = "task_lifetime";
constexpr const char* kAwaitCategory = "task_await";

// Returns whether rows of this site say when a task ran.
inline bool is_task_site(const SiteInfo& site) {
  return site.category == kTaskCategory || site.category == kAwaitCategory;
}

// One track: a thread of the process, or a task that ran on it.
struct TrackInfo {
  uint32_t id = 0;  // unique over the life of the process
  int64_t pid = 0;
  int64_t tid = 0;  // the kernel's thread id
  std::string name;
  bool alive = true;  // the thread still ran at the stop; the task had not ended
  // Id of the thread's track if this is the track of a task; -1 for threads. A task that ran on
  // several threads has the first one.
  int64_t thread_id = -1;
  // Index of the device if the track is one of its queues: `tid` is the queue's number, and `pid`
  // the index once more, as in Kineto's traces (plus 1000 for each kind of device that came
  // before), or device_pid_in() in a capture of several processes. -1 for threads and tasks.
  int32_t device_index = -1;
  // Kind of that device ("npu"); empty for GPUs of CUDA, and for threads and tasks.
  std::string device_kind;

  bool is_device() const noexcept { return device_index >= 0; }
  bool is_task() const noexcept { return thread_id >= 0; }
  // Id of the track of the thread that records of this track were made on.
  uint32_t id_of_thread() const noexcept {
    return is_task() ? static_cast<uint32_t>(thread_id) : id;
  }
};

// Pid of a device's queues that worked for another process than the capture's own: work of several
// processes on one device does not nest, so each has its own process in traces. Larger than any pid
// of Linux (2^22), and fits the 32 bits that readers of traces have for a pid. Unique for the first
// 100 devices of each of the first 10 kinds. device_pid: TrackInfo::pid in that process's capture.
constexpr int64_t kFirstForeignDevicePid = 100000000;
inline int64_t device_pid_in(int64_t process_pid, int64_t device_pid) noexcept {
  const int64_t kind = device_pid / 1000, index = device_pid % 1000;
  return kFirstForeignDevicePid + 1000 * process_pid + (100 * kind + index % 100) % 1000;
}
// The process that such a queue worked for; own_pid for all other queues.
inline int64_t process_of_device(int64_t device_pid, int64_t own_pid) noexcept {
  return device_pid < kFirstForeignDevicePid ? own_pid
                                             : (device_pid - kFirstForeignDevicePid) / 1000;
}

// What caused a row of a device or of its runtime.
struct DeviceLink {
  uint32_t row;          // a call of the device's runtime, or work on the device
  int32_t call;          // row of the call that started this work; -1: a call itself, or unknown
  int32_t range;         // innermost range or op in which the call was made; -1: none
  uint32_t correlation;  // shared by the call and its work; 0: none
};

// Events of a session. Payload words by kind:
//   range, async_range, mark   the site's arg_count typed words, then (flag detail) a DetailHeader
//                              and its words
//   counter                    one word, typed by arg_types[0]
//   flow_begin, flow_end       the id
//   memory                     ptr, bytes, total allocated, total reserved
//   out_of_memory              bytes, total allocated, total reserved
// String arguments are indices into `strings`. Shared input blocks (shared_block.hpp) are stored
// between the payloads of rows.
struct Capture {
  // Columns of equal length. Rows are grouped by track (ascending) and, within a track, ordered by
  // begin, so a parent precedes its children. 34 bytes per row, plus 8 per payload word.
  Column<int64_t> start_ns;  // Unix time, nanoseconds (monotonic clock plus one constant offset)
  Column<int64_t> end_ns;    // == start_ns for instants
  Column<uint32_t> site;     // index into sites
  Column<uint32_t> track;    // index into tracks: where the event began
  Column<int32_t> parent;    // row of the enclosing range on the same track, or kNoParent
  Column<uint32_t> payload;  // index of its first word in payload_words, or kNoPayload
  Column<EventKind> kind;
  Column<uint8_t> flags;
  // Of Python calls: line of the calling code at which it was made, 0 if unknown; at most 65534.
  // The code is that of the innermost call of a Python function around it. Empty if no row has one.
  Column<uint16_t> call_line;

  Column<uint64_t> payload_words;
  std::vector<std::string> strings;
  // Ids of the Python stacks that rows refer to, and the index in `strings` of each stack's text.
  // The text is empty until the Python layer, which resolves the ids, fills it in.
  std::vector<std::pair<uint64_t, uint32_t>> python_stacks;
  std::vector<SiteInfo> sites;
  std::vector<TrackInfo> tracks;

  // Rows with flag cross_thread_end, ascending, and for each the index of the track it ended on.
  std::vector<uint32_t> cross_thread_end_row;
  std::vector<uint32_t> cross_thread_end_track;

  // Links of all rows that come from a device or its runtime, ascending by row.
  std::vector<DeviceLink> device_links;

  // Names of the values in counters_begin and counters_end blocks, in order.
  std::vector<std::string> counter_names;

  int64_t t0_ns = 0;           // session start, Unix nanoseconds
  int64_t t1_ns = 0;           // session stop
  int64_t clock_error_ns = 0;  // half the width of the clock calibration bracket
  bool exact_stop = true;      // false: membarrier was unavailable, so the stop slept instead
  uint64_t clamped = 0;        // rows with flag clamped
  int64_t pid = 0;
  int64_t node_id = -1;  // for rows without a node id: default_node_id() at the stop
  std::string process_name;
  // Names of other processes whose rows are here (merge_captures.hpp), by pid. A track's pid says
  // which process it belongs to.
  std::vector<std::pair<int64_t, std::string>> process_names;
  std::array<uint64_t, kMaxDropCauses> dropped{};  // by DropCause

  size_t size() const noexcept { return start_ns.size(); }
  // The name of a process; empty if unknown.
  std::string name_of_process(int64_t of) const {
    if (of == pid) return process_name;
    for (const auto& [id, name] : process_names)
      if (id == of) return name;
    return {};
  }
  // The track that a range of another one ended on (flag cross_thread_end); null for other rows.
  const TrackInfo* ending_track(size_t row) const noexcept {
    const auto at = std::lower_bound(cross_thread_end_row.begin(), cross_thread_end_row.end(), row);
    if (at == cross_thread_end_row.end() || *at != row) return nullptr;
    return &tracks[cross_thread_end_track[static_cast<size_t>(at - cross_thread_end_row.begin())]];
  }
  // Number of ranges that had not ended at the stop; rows that say when tasks ran do not count.
  uint64_t open_ranges() const {
    uint64_t count = 0;
    for (size_t row = 0; row < size(); ++row)
      count += is_any_range(kind[row]) && (flags[row] & event_flag::finished) == 0 &&
               !is_task_site(sites[site[row]]);
    return count;
  }
  // Number of events that are missing, of all causes.
  uint64_t dropped_total() const noexcept {
    uint64_t total = 0;
    for (size_t i = 0; i < kMaxDropCauses; ++i)
      if (is_missing(static_cast<DropCause>(i))) total += dropped[i];
    return total;
  }
};

FASTPROF_NAMESPACE_END
