// SPDX-License-Identifier: Apache-2.0
// Session: records the process's events between start() and stop() and returns them as a Capture.
// Sessions may nest, overlap and run on several threads; each contains all its events.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/payload/perf_counters/counter_probe.hpp"
#include "fastprof/primitives/node_id.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"
#include "fastprof/session/activities.hpp"
#include "fastprof/session/assemble.hpp"
#include "fastprof/session/drain.hpp"
#include "fastprof/session/event_view.hpp"
#include "fastprof/session/session_control.hpp"
#include "fastprof/session/spill.hpp"

FASTPROF_NAMESPACE_BEGIN

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
  // Leave the file when the session ends; it then says when that was. Default: it is removed.
  bool keep_backing_file = false;
  // What the file's reader should know of the process: its rank, its role. Key and value pairs.
  std::vector<std::pair<std::string, std::string>> backing_metadata;
};

// Records events while it runs. Any thread may call its functions, but only one at a time per
// Session.
class Session {
 public:
  explicit Session(SessionOptions options = {}) : options_(std::move(options)) {}
  // Stops a running session and discards its records.
  ~Session() { abandon(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Faults in memory for `bytes` of records (at most the session's max_bytes), so that the first
  // ranges cost no more than later ones. Use it if the first milliseconds of a session matter; it
  // takes up to 3 ms (0.2 s on memory that the machine has never touched). Without it, a helper
  // thread faults in memory ahead of the recording threads. May be called before start().
  void warm_up(uint64_t bytes = kWarmPoolBytes) {
    State* s = state();
    const uint64_t bound = options_.max_bytes != 0 ? options_.max_bytes : allowance(s).max_bytes;
    fastprof::warm_up(s, bytes < bound ? bytes : bound);
  }

  // Starts recording: events that begin from here on belong to the session. A stopped session may
  // be started again, which discards the earlier capture. Throws StateError if it already runs, if
  // 64 sessions run, or if another running session records different counters or stacks; ValueError
  // for a bound below 64 KB or options that exclude each other; UnavailableError if perf counters
  // or the spill thread are unavailable; IoError if the spill file cannot be created.
  void start() {
    if (running()) raise<StateError>("the session is already running; call stop() first");
    State* s = state();
    SessionRequest request;
    request.mask = options_.categories & category::all;
    request.local = options_.thread_local_only;
    request.policy = options_.overflow;
    request.max_bytes = options_.max_bytes;
    request.max_name_bytes = options_.max_name_bytes;
    request.include_open = options_.include_open;
    request.follow_fork = options_.follow_fork;
    request.inputs = options_.record_shapes;
    if (options_.follow_fork &&
        (!options_.counters.empty() || options_.overflow == OverflowPolicy::spill_to_file))
      raise<ValueError>(
          "follow_fork cannot be combined with perf counters or a spill file, which belong to the "
          "process that opened them. Remove one of the options.");
    DetailOptions detail{};
    if (!options_.counters.empty()) {
      const CounterProbe probe = probe_counters(options_.counters, &detail);
      if (!probe.available)
        raise<UnavailableError>("perf counters are not available: " + probe.reason);
    }
    detail.cpp_stack = options_.cpp_stacks;
    detail.max_frames = options_.max_frames;
    detail.joined_stack = options_.joined_stacks;
    if (options_.cpp_stacks || options_.joined_stacks || !options_.counters.empty())
      request.detail = &detail;
    FileRequest file{options_.backing_file, options_.backing_metadata};
    if (!file.path.empty()) {
      if (options_.overflow == OverflowPolicy::spill_to_file)
        raise<ValueError>(
            "a backing file does not go with spill_to_file: leave one of the two out");
      std::string names;
      for (const std::string& counter : options_.counters) names += counter + "\n";
      if (!names.empty()) file.metadata.emplace_back("counters", names);
      request.file = &file;
    }
    if (options_.overflow == OverflowPolicy::spill_to_file)
      spill_file_ = std::make_unique<SpillFile>(options_.spill_folder);
    capture_ = Capture{};
    activities_.clear();
    // Before t0: system calls of a thread's first registration must not fall into the session.
    const Track* own = options_.thread_local_only ? current_track() : nullptr;
    drain_ = std::make_unique<Drain>(options_.include_open, own != nullptr ? own->id : 0);
    backing_ = BackingReport{};
    index_ = start_session(s, request, &backing_);
    backing_pid_ = s->pid;
    pid_ = s->pid;
    spill_error_ = 0;
    if (spill_file_ != nullptr) start_spilling(s);
    if (own != nullptr) join_session(s, thread_block(), index_);
  }

  // Stops recording and reads all events. Returns the capture, valid until the next start() or
  // take_capture(). Any thread. Throws StateError if the session does not run (in a forked child
  // too, unless follow_fork is set) or has more than 2^31 events, and std::bad_alloc if there is no
  // memory for the result; the session is then over and its records are lost.
  const Capture& stop() {
    if (index_ < 0) raise<StateError>("the session is not running; call start() first");
    State* s = state();
    follow_fork();
    if (pid_ != s->pid) {
      forget_parent();
      raise<StateError>(
          "this session was started in the parent process. Start another one in the forked child.");
    }
    Snapshot snapshot;
    const std::unique_ptr<Drain> drain = std::exchange(drain_, nullptr);
    {
      const Ending ending(*this, s);
      {
        StateLock hold(s);
        end_session(s, index_);
        snapshot = take_snapshot(s, index_);
      }
      read_spilled(*drain, snapshot);
      drain->read(s, snapshot);
    }
    capture_ = assemble(std::move(drain->rows()), snapshot, activities_);
    activities_.clear();
    finish_report(s, backing_);
    leave_backing_file(s);
    if (spill_error_ != 0) {  // the bound was reached because the file could not be written to
      uint64_t& bound = capture_.dropped[static_cast<size_t>(DropCause::bound)];
      capture_.dropped[static_cast<size_t>(DropCause::spill_failed)] += bound;
      bound = 0;
    }
    capture_.counter_names = options_.counters;
    capture_.node_id = default_node_id();
    return capture_;
  }

  // Moves finished events from the recorder to this session, which frees the recorder's memory for
  // new records. Call it now and then in a long session. Returns the number of events read so far.
  // Throws StateError if the session does not run, and std::bad_alloc if memory runs out: unread
  // events then stay in the recorder.
  size_t drain() {
    if (!running()) raise<StateError>("the session is not running; call start() first");
    State* s = state();
    follow_fork();
    ScopedLock drains(s->drain_lock);
    Snapshot snapshot;
    {
      StateLock hold(s);
      snapshot = take_snapshot(s, index_);
    }
    {
      Reading reading(s, index_, snapshot);
      drain_->read_finished(s, snapshot, reading.consumed);
    }
    return drain_->row_count();
  }

  // Returns what has been recorded so far; recording goes on, and a later stop() returns
  // everything. Ranges in progress are in it, unfinished. Activities of devices are not. Throws
  // StateError if the session does not run, spills to a file or has been drained, and
  // std::bad_alloc.
  Capture capture_so_far() {
    if (!running()) raise<StateError>("the session is not running; call start() first");
    State* s = state();
    follow_fork();
    if (spill_file_ != nullptr || drain_->row_count() != 0)
      raise<StateError>(
          "the session has moved records elsewhere (a spill file, or drain()), so that they cannot "
          "be read while it runs. Stop it, or use another overflow policy and no drain().");
    const Track* own = options_.thread_local_only ? current_track() : nullptr;
    Drain drain(options_.include_open, own != nullptr ? own->id : 0);
    Snapshot snapshot;
    {
      ScopedLock drains(s->drain_lock);
      {
        StateLock hold(s);
        snapshot = take_snapshot(s, index_);
      }
      Reading reading(s, index_, snapshot);  // releases what it pinned, of an overwriting session
      drain.read(s, snapshot);
    }
    return assemble(std::move(drain.rows()), snapshot);
  }

  // Hands over what a device did while the session ran, for the next stop() to list. Once a kind of
  // device: correlations are compared in one call's activities only. Throws StateError if the
  // session does not run, ValueError if an index in `activities` is out of range.
  void add_activities(Activities&& activities) {
    if (!running()) raise<StateError>("the session is not running; call start() first");
    check_activities(activities);
    PlacedActivities placed;
    placed.track_ids.resize(activities.places.size());
    placed.from = std::move(activities);
    {
      State* s = state();
      StateLock hold(s);
      for (uint32_t& id : placed.track_ids) id = ++s->next_track_id;
    }
    activities_.push_back(std::move(placed));
  }

  // Whether it has been started and not stopped. False in a forked child, unless follow_fork is
  // set.
  bool running() const noexcept {
    return index_ >= 0 && (options_.follow_fork || pid_ == state()->pid);
  }

  // Ends a running session and discards its records, without reading them. Does nothing otherwise.
  void abandon() noexcept {
    if (index_ < 0) return;
    if (!options_.follow_fork && pid_ != state()->pid) return forget_parent();
    State* s = state();
    {
      const Ending ending(*this, s);
      StateLock hold(s);
      end_session(s, index_);
    }
    leave_backing_file(s);
  }

  // Adds to what the backing file says of the process (SessionOptions::backing_metadata); of equal
  // keys, readers use the last. No effect unless the session runs and has a backing file.
  void add_backing_metadata(const std::string& key, const std::string& value) {
    if (!running()) return;
    State* s = state();
    StateLock hold(s);
    if (file_in_force(s) && s->backing_file->owner == static_cast<unsigned>(index_))
      add_file_metadata(s->backing_file, key, value);
  }

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
  static std::vector<std::string> unrecorded_libraries() { return libraries_of_other_abi(); }

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
  // RAII: the end of a session. The destructor frees the session's slot even if reading failed;
  // end_session() must have been called before.
  class Ending {
   public:
    Ending(Session& session, State* s) noexcept
        : session_(session), s_(s), drains_(without_spill_thread(session, s)) {}
    ~Ending() {
      session_.leave_thread(s_);
      release_session(s_, session_.index_);
      session_.index_ = -1;
      session_.spill_file_.reset();
    }
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;

   private:
    // Stops the spill thread before drain_lock is taken, since that thread takes it too.
    static pthread_mutex_t& without_spill_thread(Session& session, State* s) noexcept {
      session.spill_thread_.reset();
      return s->drain_lock;
    }

    Session& session_;
    State* s_;
    ScopedLock drains_;
  };

  // RAII: one pass of a live drain. The destructor releases the chunks in `consumed`; unread ones
  // stay pinned.
  struct Reading {
    Reading(State* state, int session, const Snapshot& of)
        : s(state), index(session), snapshot(of) {
      consumed.reserve(count_runs(of));  // so that push_back cannot throw after a run was read
    }
    ~Reading() {
      StateLock hold(s);
      release_read(s, index, snapshot, consumed);
      sweep(s);
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

    State* s;
    int index;
    const Snapshot& snapshot;
    std::vector<Chunk*> consumed;
  };

  // Starts the spill thread. If there is no memory or no thread for it, the session ends and the
  // exception propagates.
  void start_spilling(State* s) {
#if FASTPROF_EXCEPTIONS
    try {
      spill_thread_ = std::make_unique<SpillThread>(s, index_, spill_file_.get());
    } catch (...) {
      abandon();
      spill_file_.reset();
      throw;
    }
#else
    spill_thread_ = std::make_unique<SpillThread>(s, index_, spill_file_.get());
#endif
  }

  // Removes the stopping thread from a thread-local session; other threads notice by themselves.
  void leave_thread(State* s) noexcept {
    if (!options_.thread_local_only) return;
    ThreadBlock* block = thread_block();
    if (block->track == nullptr) return;
    const LocalSessions own = own_local_sessions(s, block->track);
    set_local_sessions(s, block, own.bits & ~(uint64_t{1} << index_), own.newest_id);
  }

  // After the end of the session: removes its backing file, unless it is to be kept.
  void leave_backing_file(const State* s) noexcept {
    if (!backing_.opened || backing_pid_ != s->pid) return;  // a forked child: the parent's
    if (!options_.keep_backing_file) ::unlink(options_.backing_file.c_str());
  }

  // Reads the spill file back, before the chunks that are still in memory.
  void read_spilled(Drain& drain, Snapshot& snapshot) {
    if (spill_file_ == nullptr) return;
    spill_error_ = spill_file_->error();
    spilled_bytes_ = spill_file_->bytes();
    uint64_t lost = 0;
    spill_file_->read_back([&](const TrackInfo& track,
                               const PinnedRun& run) { drain.read_spilled(snapshot, track, run); },
                           lost);
    snapshot.dropped[static_cast<size_t>(DropCause::spill_failed)] += lost;
  }

  // In a forked child, before a session with follow_fork is used: discards what the parent drained.
  void follow_fork() {
    const uint64_t pid = state()->pid;
    if (!options_.follow_fork || pid_ == pid) return;
    pid_ = pid;
    backing_ = BackingReport{};
    const Track* own = options_.thread_local_only ? current_track() : nullptr;
    drain_ = std::make_unique<Drain>(options_.include_open, own != nullptr ? own->id : 0);
  }

  // In a forked child without follow_fork: drops the parent's session and its spill thread.
  void forget_parent() noexcept {
    index_ = -1;
    if (spill_thread_ != nullptr) spill_thread_->stop(false);
    spill_thread_.reset();
    spill_file_.reset();
  }

  SessionOptions options_;
  int index_ = -1;
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
