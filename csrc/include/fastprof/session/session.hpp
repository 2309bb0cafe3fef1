// SPDX-License-Identifier: Apache-2.0
// Session: records the process's events between start() and stop() and returns them as a Capture.
// Sessions may nest, overlap and run on several threads; each contains all its events. What its
// functions do is in session_definitions.hpp.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/drop_cause.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/recorder/state/own_state.hpp"
#include "fastprof/session/activities.hpp"
#include "fastprof/session/backing_report.hpp"
#include "fastprof/session/event_view.hpp"
#include "fastprof/session/session_options.hpp"

FASTPROF_NAMESPACE_BEGIN

class Drain;
class SpillFile;
class SpillThread;
struct Snapshot;

// Customisation points of Session's output functions. Each is specialised in a header of its own,
// so that a program compiles only what it uses.
template <class Data>
struct SummaryOf {
  static_assert(sizeof(Data) == 0, "Session::summary(): #include <fastprof/summary.hpp>");
};
template <class Data>
struct ChromeTraceOf {
  static_assert(sizeof(Data) == 0,
                "Session::write_chrome_trace(): #include <fastprof/chrome_trace.hpp>");
};
template <class Data>
struct PerfettoTraceOf {
  static_assert(sizeof(Data) == 0,
                "Session::write_perfetto_trace(): #include <fastprof/perfetto_trace.hpp>");
};

// Records events while it runs. Any thread may call its functions, but only one at a time per
// Session.
class Session {
 public:
  explicit Session(SessionOptions options = {});
  // Stops a running session and discards its records.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Faults in memory for `bytes` of records (at most the session's max_bytes), so that the first
  // ranges cost no more than later ones. Use it if the first milliseconds of a session matter; it
  // takes up to 3 ms (0.2 s on memory that the machine has never touched). Without it, a helper
  // thread faults in memory ahead of the recording threads. May be called before start().
  void warm_up(uint64_t bytes = 32 * 1024 * 1024);

  // Starts recording: events that begin from here on belong to the session. A stopped session may
  // be started again, which discards the earlier capture, unless it throws. StateError: it runs, or
  // 64 sessions run, or another running session records different counters or stacks; ValueError:
  // a bound below 64 KB or options that exclude each other; UnavailableError: no perf counters or
  // spill thread; IoError: the spill file cannot be created.
  void start();

  // Stops recording and reads all events. Returns the capture, valid until the next start() or
  // take_capture(). Any thread. Throws StateError if the session does not run (in a forked child
  // too, unless follow_fork is set) or has more than 2^31 events, and std::bad_alloc if there is no
  // memory for the result. The records are then kept, except those moved by drain(): call stop()
  // again once memory is free, or abandon().
  const Capture& stop();

  // Moves finished events from the recorder to this session, which frees the recorder's memory for
  // new records. Call it now and then in a long session. Returns the number of events read so far.
  // Throws StateError if the session does not run, and std::bad_alloc if memory runs out: unread
  // events then stay in the recorder.
  size_t drain();

  // Returns what has been recorded so far; recording goes on, and a later stop() returns
  // everything. Ranges in progress are in it, unfinished. Activities of devices are not. Throws
  // StateError if the session does not run, spills to a file or has been drained, and
  // std::bad_alloc.
  Capture capture_so_far();

  // Hands over what a device did while the session ran; the next stop() adds it to the capture.
  // Call it once for each kind of device, because correlations are unique within one call only.
  // Throws StateError if the session does not run, ValueError if `activities` are inconsistent.
  void add_activities(Activities&& activities);

  // Whether it has been started and not stopped. False in a forked child, unless follow_fork is
  // set.
  bool running() const noexcept {
    return index_ >= 0 && (options_.follow_fork || pid_ == state()->pid);
  }

  // Ends a running session and discards its records, without reading them. Does nothing otherwise.
  void abandon() noexcept;

  // Adds to what the backing file says of the process (SessionOptions::backing_metadata); of equal
  // keys, readers use the last. No effect unless the session runs and has a backing file.
  void add_backing_metadata(const std::string& key, const std::string& value);

  // The capture of the last stop(). Empty before.
  const Capture& capture() const noexcept { return capture_; }
  // Returns a Summary of the last capture: one row per name, largest self time first. Requires
  // #include <fastprof/summary.hpp>.
  template <class Data = Capture>
  auto summary() const {
    return SummaryOf<Data>::make(capture_);
  }
  // Writes the last capture to `path` as a Chrome JSON trace, for chrome://tracing, Perfetto,
  // TensorBoard and HTA. Throws IoError. Requires #include <fastprof/chrome_trace.hpp>.
  template <class Data = Capture>
  void write_chrome_trace(const std::string& path) const {
    ChromeTraceOf<Data>::write(capture_, path);
  }
  // Writes the last capture to `path` in Perfetto's native format: a fifth of the size, with exact
  // nanoseconds. Throws IoError. Requires #include <fastprof/perfetto_trace.hpp>.
  template <class Data = Capture>
  void write_perfetto_trace(const std::string& path) const {
    PerfettoTraceOf<Data>::write(capture_, path);
  }
  // The events of the last capture, for iteration; capture() returns them as columns.
  Events events() const noexcept { return Events(capture_); }
  // Number of events missing from the last capture: in total, or for one cause.
  uint64_t dropped_events() const noexcept { return capture_.dropped_total(); }
  uint64_t dropped_events(DropCause cause) const noexcept {
    return capture_.dropped[static_cast<size_t>(cause)];
  }

  // Paths of loaded libraries built with another ABI major of fastprof, whose events this library's
  // sessions cannot record. An empty path means the executable.
  static std::vector<std::string> unrecorded_libraries();

  // errno of the first failed write to the spill file before the last stop(); 0 if none failed.
  // Events lost because of it are counted as DropCause::spill_failed.
  int spill_error() const noexcept { return spill_error_; }
  // Bytes that the last stopped session wrote to its spill file.
  uint64_t spilled_bytes() const noexcept { return spilled_bytes_; }

  // What became of the backing file of the session that runs, or ran last: whether it was made, and
  // after the stop what it lacks.
  const BackingReport& backing_report() const noexcept { return backing_; }

  // Moves the last capture out; capture() is empty afterwards.
  Capture take_capture() noexcept { return std::exchange(capture_, Capture{}); }

 private:
  class Ending;
  struct Reading;

  // Starts the spill thread. If there is no memory or no thread for it, the session ends and the
  // exception propagates.
  void start_spilling(State* s);

  // Ends the recording; the second time, which follows a stop() that ran out of memory, does
  // nothing. State::lock held.
  void end_once(State* s) noexcept;

  // Removes the stopping thread from a thread-local session; other threads notice by themselves.
  void leave_thread(State* s) noexcept;

  // After the end of the session: removes its backing file, unless it is to be kept.
  void leave_backing_file(const State* s) noexcept;

  // Reads the spill file back, before the chunks that are still in memory.
  void read_spilled(Drain& drain, Snapshot& snapshot);

  // In a forked child, before a session with follow_fork is used: discards what the parent drained.
  void follow_fork();

  // In a forked child without follow_fork: drops the parent's session and its spill thread.
  void forget_parent() noexcept;

  SessionOptions options_;
  int index_ = -1;
  bool ended_ = false;  // no longer recording, although its records are not read yet
  uint64_t pid_ = 0;
  std::unique_ptr<Drain> drain_;
  std::unique_ptr<SpillFile> spill_file_;
  std::unique_ptr<SpillThread> spill_thread_;  // destroyed before spill_file_, which it uses
  int spill_error_ = 0;
  uint64_t spilled_bytes_ = 0;
  BackingReport backing_;
  uint64_t backing_pid_ = 0;                  // process that made the file
  std::vector<PlacedActivities> activities_;  // for the next stop()
  Capture capture_;
};

FASTPROF_NAMESPACE_END

#if !FASTPROF_DECLARED_ONLY
#include "fastprof/session/session_definitions.hpp"
#endif
