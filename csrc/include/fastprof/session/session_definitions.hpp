// SPDX-License-Identifier: Apache-2.0
// Definitions of Session's functions. Apart, so that a program can compile them once
// (FASTPROF_SEPARATE, see definitions.cpp).
#pragma once

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/payload/perf_counters/counter_probe.hpp"
#include "fastprof/primitives/node_id.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"
#include "fastprof/session/assemble.hpp"
#include "fastprof/session/drain.hpp"
#include "fastprof/session/session.hpp"
#include "fastprof/session/session_control.hpp"
#include "fastprof/session/session_file.hpp"
#include "fastprof/session/spill.hpp"

FASTPROF_NAMESPACE_BEGIN

// RAII: the end of a session. The destructor frees the session's slot and removes its backing file
// (unless it is to be kept) even if reading failed; end_session() must have been called before.
class Session::Ending {
 public:
  Ending(Session& session, State* s) noexcept
      : session_(session), s_(s), drains_(without_spill_thread(session, s)) {}
  ~Ending() {
    session_.leave_thread(s_);
    release_session(s_, session_.index_);
    session_.index_ = -1;
    session_.spill_file_.reset();
    session_.leave_backing_file(s_);
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
struct Session::Reading {
  Reading(State* state, int session, const Snapshot& of) : s(state), index(session), snapshot(of) {
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

FASTPROF_OUTLINE Session::Session(SessionOptions options) : options_(std::move(options)) {}

FASTPROF_OUTLINE Session::~Session() {
  abandon();
}

FASTPROF_OUTLINE void Session::warm_up(uint64_t bytes) {
  State* s = state();
  const uint64_t bound = options_.max_bytes != 0 ? options_.max_bytes : allowance(s).max_bytes;
  fastprof::warm_up(s, bytes < bound ? bytes : bound);
}

FASTPROF_OUTLINE void Session::start() {
  if (running()) raise<StateError>("the session is already running; call stop() first");
  if (index_ >= 0) forget_parent();  // a forked child: it belongs to the parent
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
          "backing_file cannot be combined with spill_to_file. Remove one of the options.");
    std::string names;
    for (const std::string& counter : options_.counters) names += counter + "\n";
    if (!names.empty()) file.metadata.emplace_back("counters", names);
    request.file = &file;
  }
  std::unique_ptr<SpillFile> spill_file;
  if (options_.overflow == OverflowPolicy::spill_to_file)
    spill_file = std::make_unique<SpillFile>(options_.spill_folder);
  // Before t0: system calls of a thread's first registration must not fall into the session.
  const Track* own = options_.thread_local_only ? current_track() : nullptr;
  auto drain = std::make_unique<Drain>(options_.include_open, own != nullptr ? own->id : 0);
  BackingReport backing{};
  index_ = start_session(s, request, &backing);
  // From here on it has started: the capture of the session before goes.
  capture_ = Capture{};
  activities_.clear();
  drain_ = std::move(drain);
  spill_file_ = std::move(spill_file);
  backing_ = std::move(backing);
  ended_ = false;
  backing_pid_ = s->pid;
  pid_ = s->pid;
  spill_error_ = 0;
  if (spill_file_ != nullptr) start_spilling(s);
  if (own != nullptr) join_session(s, thread_block(), index_);
}

FASTPROF_OUTLINE const Capture& Session::stop() {
  if (index_ < 0) raise<StateError>("the session is not running; call start() first");
  State* s = state();
  follow_fork();
  if (pid_ != s->pid) {
    forget_parent();
    raise<StateError>(
        "this session was started in the parent process. Start another one in the forked child.");
  }
  // The chunks stay pinned until the capture is complete, so that a stop() that ran out of memory
  // can be called again.
  std::unique_ptr<Drain> drain;
  Snapshot snapshot;
  spill_thread_.reset();  // before drain_lock is taken, since that thread takes it too
  {
    const ScopedLock drains(s->drain_lock);
    {
      StateLock hold(s);
      end_once(s);
      snapshot = take_snapshot(s, index_);
    }
    // An empty one is left for that call, because this one may read a part of the rows.
    drain = std::exchange(drain_, std::make_unique<Drain>(drain_->empty_copy()));
    read_spilled(*drain, snapshot);
    drain->read(s, snapshot);
  }
  Capture capture = assemble(std::move(drain->rows()), snapshot, activities_);
  if (spill_error_ != 0) {  // the bound was reached because the file could not be written to
    uint64_t& bound = capture.dropped[static_cast<size_t>(DropCause::bound)];
    capture.dropped[static_cast<size_t>(DropCause::spill_failed)] += bound;
    bound = 0;
  }
  capture.counter_names = options_.counters;
  capture.node_id = default_node_id();
  { const Ending ending(*this, s); }
  drain_.reset();
  activities_.clear();
  finish_report(s, backing_);
  capture_ = std::move(capture);
  return capture_;
}

FASTPROF_OUTLINE size_t Session::drain() {
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

FASTPROF_OUTLINE Capture Session::capture_so_far() {
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

FASTPROF_OUTLINE void Session::add_activities(Activities&& activities) {
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

FASTPROF_OUTLINE void Session::abandon() noexcept {
  if (index_ < 0) return;
  if (!options_.follow_fork && pid_ != state()->pid) return forget_parent();
  State* s = state();
  const Ending ending(*this, s);
  StateLock hold(s);
  end_once(s);
}

FASTPROF_OUTLINE void Session::add_backing_metadata(const std::string& key,
                                                    const std::string& value) {
  if (!running()) return;
  State* s = state();
  const std::string text = metadata_text(key, value);
  StateLock hold(s);
  if (file_in_force(s) && s->backing_file->owner == static_cast<unsigned>(index_))
    add_file_metadata(s->backing_file, text);
}

FASTPROF_OUTLINE std::vector<std::string> Session::unrecorded_libraries() {
  return libraries_of_other_abi();
}

FASTPROF_OUTLINE void Session::start_spilling(State* s) {
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

FASTPROF_OUTLINE void Session::end_once(State* s) noexcept {
  if (!ended_) end_session(s, index_);
  ended_ = true;
}

FASTPROF_OUTLINE void Session::leave_thread(State* s) noexcept {
  if (!options_.thread_local_only) return;
  ThreadBlock* block = thread_block();
  if (block->track == nullptr) return;
  const LocalSessions own = own_local_sessions(s, block->track);
  set_local_sessions(s, block, own.bits & ~(uint64_t{1} << index_), own.newest_id);
}

FASTPROF_OUTLINE void Session::leave_backing_file(const State* s) noexcept {
  if (!backing_.opened || backing_pid_ != s->pid) return;  // a forked child: the parent's
  if (!options_.keep_backing_file) ::unlink(options_.backing_file.c_str());
}

FASTPROF_OUTLINE void Session::read_spilled(Drain& drain, Snapshot& snapshot) {
  if (spill_file_ == nullptr) return;
  spill_error_ = spill_file_->error();
  spilled_bytes_ = spill_file_->bytes();
  uint64_t lost = 0;
  spill_file_->read_back([&](const TrackInfo& track,
                             const PinnedRun& run) { drain.read_spilled(snapshot, track, run); },
                         lost);
  snapshot.dropped[static_cast<size_t>(DropCause::spill_failed)] += lost;
}

FASTPROF_OUTLINE void Session::follow_fork() {
  const uint64_t pid = state()->pid;
  if (!options_.follow_fork || pid_ == pid) return;
  pid_ = pid;
  backing_ = BackingReport{};
  const Track* own = options_.thread_local_only ? current_track() : nullptr;
  drain_ = std::make_unique<Drain>(options_.include_open, own != nullptr ? own->id : 0);
}

FASTPROF_OUTLINE void Session::forget_parent() noexcept {
  index_ = -1;
  if (spill_thread_ != nullptr) spill_thread_->stop(false);
  spill_thread_.reset();
  spill_file_.reset();
}

FASTPROF_NAMESPACE_END
