// SPDX-License-Identifier: Apache-2.0
// Session: a stretch of time whose records you get back. Sessions may nest, overlap and run on
// several threads at once; each sees all its events.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/primitives/node_id.hpp"
#include "fastprof/process/attach.hpp"
#include "fastprof/range_detail/counter_probe.hpp"
#include "fastprof/recorder/thread.hpp"
#include "fastprof/session/assemble.hpp"
#include "fastprof/session/drain.hpp"
#include "fastprof/session/event_view.hpp"
#include "fastprof/session/session_control.hpp"
#include "fastprof/session/spill.hpp"

FASTPROF_NAMESPACE_BEGIN

// What a Session makes of its capture, each part in a header of its own: the program compiles what
// it uses.
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

struct SessionOptions {
  uint32_t categories = category::all;  // category bits to record
  bool thread_local_only = false;       // only the starting thread and what is propagated from it
  uint64_t max_bytes = 0;  // of records held at once; 0: min(256 MB, 1/16 of the memory limit)
  // Of names and string arguments made at run time, in the whole process; 0: 64 MB. The largest
  // bound of the sessions that run holds. At the bound, events get a shared name; a name or string
  // longer than 1/1024 of the bound (256 bytes at least, 64 KB at most) is cut and ends in
  // "... [cut: N bytes]". Both are counted as DropCause::names.
  uint64_t max_name_bytes = 0;
  OverflowPolicy overflow = OverflowPolicy::drop_newest;
  bool include_open = false;  // also list ranges that were open at start (flag `enclosing`)
  std::string spill_folder;   // for spill_to_file; empty: the folder for temporary files
  std::vector<std::string>
      counters;             // perf counters read around each range, up to 4 (see counter_names.hpp)
  bool cpp_stacks = false;  // native return addresses at the begin of each range
  uint32_t max_frames = 32;
  // In a forked child the session goes on, empty: stop() there returns what the child recorded. The
  // parent's is not touched. Not with counters or spill_to_file.
  bool follow_fork = false;
  // Record the inputs and keyword inputs that RecordFunctions are given: shapes, element types and
  // values. Every other detail of a RecordFunction is recorded in any case.
  bool record_shapes = false;
};

class Session {
 public:
  explicit Session(SessionOptions options = {}) : options_(std::move(options)) {}
  // Stops a running session; its records are lost.
  ~Session() { abandon(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Faults in memory for `bytes` of records (at most `max_bytes` of the options), so that the first
  // ranges cost what later ones do. For a session whose start may take 3 ms (0.2 s where the
  // machine has never touched the memory) and whose first milliseconds matter; without it a helper
  // thread faults memory in ahead of the recording threads. Any thread; may be called before
  // start().
  void warm_up(uint64_t bytes = kWarmPoolBytes) {
    State* s = state();
    const uint64_t bound = options_.max_bytes != 0 ? options_.max_bytes : allowance(s).max_bytes;
    fastprof::warm_up(s, bytes < bound ? bytes : bound);
  }

  // Begins to record; everything begun from here on is the session's. Throws StateError when it
  // runs already. A stopped session may be started again: the earlier capture is then dropped.
  void start() {
    if (running()) raise<StateError>("the session runs already: call stop() first");
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
          "follow_fork does not go with perf counters or a spill file, which belong to the process "
          "that opened them: leave one of the two out");
    DetailOptions detail{};
    if (!options_.counters.empty()) {
      const CounterProbe probe = probe_counters(options_.counters, &detail);
      if (!probe.available)
        raise<UnavailableError>("perf counters are not available: " + probe.reason);
    }
    detail.cpp_stack = options_.cpp_stacks;
    detail.max_frames = options_.max_frames;
    if (options_.cpp_stacks || !options_.counters.empty()) request.detail = &detail;
    if (options_.overflow == OverflowPolicy::spill_to_file)
      spill_file_ = std::make_unique<SpillFile>(options_.spill_folder);
    capture_ = Capture{};
    // Before t0, which a first registration's system calls would otherwise fall behind.
    const Track* own = options_.thread_local_only ? current_track() : nullptr;
    drain_ = std::make_unique<Drain>(options_.include_open, own != nullptr ? own->id : 0);
    index_ = start_session(s, request);
    pid_ = s->pid;
    spill_error_ = 0;
    if (spill_file_ != nullptr) start_spilling(s);
    if (own != nullptr) join_session(s, thread_block(), index_);
  }

  // Ends recording and reads everything. Any thread. Throws StateError when it does not run; in a
  // forked child, where the parent's session does not exist, too. Throws std::bad_alloc when there
  // is no memory for the result: the session is over then, and its records are lost.
  const Capture& stop() {
    if (index_ < 0) raise<StateError>("the session does not run: call start() first");
    State* s = state();
    follow_fork();
    if (pid_ != s->pid) {
      forget_parent();
      raise<StateError>(
          "this session was started in the parent process; a forked child starts its own");
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
    capture_ = assemble(std::move(drain->rows()), snapshot);
    if (spill_error_ != 0) {  // the bound was reached because the file could not be written
      uint64_t& bound = capture_.dropped[static_cast<size_t>(DropCause::bound)];
      capture_.dropped[static_cast<size_t>(DropCause::spill_failed)] += bound;
      bound = 0;
    }
    capture_.counter_names = options_.counters;
    capture_.node_id = default_node_id();
    return capture_;
  }

  // Moves what is finished out of the recorder, so that its memory serves new records; call it now
  // and then in a long session. Returns the number of events read so far. Any thread, one at a
  // time. Throws std::bad_alloc when there is no memory for what it reads, which then stays where
  // it is.
  size_t drain() {
    if (!running()) raise<StateError>("the session does not run: call start() first");
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

  bool running() const noexcept {
    return index_ >= 0 && (options_.follow_fork || pid_ == state()->pid);
  }

  // What the last stop() read. Empty before.
  const Capture& capture() const noexcept { return capture_; }
  // Rows by name of the last capture, largest self time first: a Summary. Include
  // fastprof/summary.hpp.
  template <class Data = Capture>
  auto summary() const {
    return SummaryOf<Data>::make(capture_);
  }
  // Writes the last capture as a trace for chrome://tracing, Perfetto, TensorBoard and HTA. Throws
  // IoError. Include fastprof/chrome_trace.hpp.
  template <class Data = Capture>
  void write_chrome_trace(const std::string& path) const {
    ChromeTraceOf<Data>::write(capture_, path);
  }
  // The same in Perfetto's native format: a fifth of the size, exact nanoseconds. Throws IoError.
  // Include fastprof/perfetto_trace.hpp.
  template <class Data = Capture>
  void write_perfetto_trace(const std::string& path) const {
    PerfettoTraceOf<Data>::write(capture_, path);
  }
  // The events of the last capture, to iterate over; capture() has them as columns.
  Events events() const noexcept { return Events(capture_); }
  // How many events are missing from the last capture: in all, or for one cause.
  uint64_t dropped_events() const noexcept { return capture_.dropped_total(); }
  uint64_t dropped_events(DropCause cause) const noexcept {
    return capture_.dropped[static_cast<size_t>(cause)];
  }

  // Loaded libraries that were built with another ABI major of fastprof: no session of ours sees
  // what they record. The empty path is the executable.
  static std::vector<std::string> unrecorded_libraries() { return libraries_of_other_abi(); }

  // errno of the first write that the spill file of the last stop() refused, 0 for none. Events
  // that were lost for it are counted under DropCause::spill_failed.
  int spill_error() const noexcept { return spill_error_; }
  // Bytes that the session of the last stop() had in its spill file.
  uint64_t spilled_bytes() const noexcept { return spilled_bytes_; }

  Capture take_capture() noexcept { return std::exchange(capture_, Capture{}); }

 private:
  // While a session ends. When this goes, the session's slot is free again, whether all of it was
  // read or not; end_session() must have been called meanwhile.
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
    // The spill thread takes the lock, too.
    static pthread_mutex_t& without_spill_thread(Session& session, State* s) noexcept {
      session.spill_thread_.reset();
      return s->drain_lock;
    }

    Session& session_;
    State* s_;
    ScopedLock drains_;
  };

  // A pass of a live drain: when this goes, what it has read is done with and the rest is not.
  struct Reading {
    Reading(State* state, int session, const Snapshot& of)
        : s(state), index(session), snapshot(of) {
      consumed.reserve(count_runs(of));  // the drain must not fail between reading and noting
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

  // Throws if there is no memory or no thread; the session then does not run.
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

  // The stopping thread leaves the session; others when they next look.
  void leave_thread(State* s) noexcept {
    if (!options_.thread_local_only) return;
    ThreadBlock* block = thread_block();
    if (block->track == nullptr) return;
    const LocalSessions own = own_local_sessions(s, block->track);
    set_local_sessions(s, block, own.bits & ~(uint64_t{1} << index_), own.newest_id);
  }

  // What was spilled comes before what is still in memory, track by track.
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

  // In a forked child, before a session that follows is used: what the parent has drained is the
  // parent's.
  void follow_fork() {
    const uint64_t pid = state()->pid;
    if (!options_.follow_fork || pid_ == pid) return;
    pid_ = pid;
    const Track* own = options_.thread_local_only ? current_track() : nullptr;
    drain_ = std::make_unique<Drain>(options_.include_open, own != nullptr ? own->id : 0);
  }

  // In a forked child: the session and its thread belong to the parent.
  void forget_parent() noexcept {
    index_ = -1;
    if (spill_thread_ != nullptr) spill_thread_->stop(false);
    spill_thread_.reset();
    spill_file_.reset();
  }

  void abandon() noexcept {
    if (index_ < 0) return;
    if (!options_.follow_fork && pid_ != state()->pid) return forget_parent();
    State* s = state();
    const Ending ending(*this, s);
    StateLock hold(s);
    end_session(s, index_);
  }

  SessionOptions options_;
  int index_ = -1;
  uint64_t pid_ = 0;
  std::unique_ptr<Drain> drain_;
  std::unique_ptr<SpillFile> spill_file_;
  std::unique_ptr<SpillThread> spill_thread_;  // before spill_file_ in destruction
  int spill_error_ = 0;
  uint64_t spilled_bytes_ = 0;
  Capture capture_;
};

FASTPROF_NAMESPACE_END
