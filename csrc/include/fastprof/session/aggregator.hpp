// SPDX-License-Identifier: Apache-2.0
// Aggregator: reads every range that the process records, once, into NameTotals; memory does not
// grow with the number of ranges.
//
// It is a session of its own, so that no chunk is recycled before it has been read. read() goes on
// in each chunk where the last call stopped, and releases those that are complete. What exceeds
// max_bytes between two calls is not read; it is counted in dropped().
#pragma once

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/own_state.hpp"
#include "fastprof/recorder/state/task_switch.hpp"
#include "fastprof/recorder/state/thread_end.hpp"
#include "fastprof/session/range_stacks.hpp"
#include "fastprof/session/session_control.hpp"

FASTPROF_NAMESPACE_BEGIN

// Aggregates from its construction until its destruction. Any thread may call its functions, one at
// a time; no recording thread waits. In a forked child, destroy it: it does nothing there.
class Aggregator {
 public:
  // categories: of the ranges. max_bytes: of records between two calls of read(). Throws what
  // start_session() does.
  explicit Aggregator(uint32_t categories = category::all, uint64_t max_bytes = uint64_t{64} << 20)
      : state_(state()), pid_(state_->pid), stacks_(totals_) {
    SessionRequest request;
    request.mask = categories;
    request.max_bytes = max_bytes;
    index_ = start_session(state_, request);
    minute_began_ns_ = hour_began_ns_ = began_ns_ = read_until_ns_ = platform::unix_ns();
  }
  ~Aggregator() {
    if (pid_ != state_->pid) return;
    ScopedLock drains(state_->drain_lock);
    {
      StateLock hold(state_);
      end_session(state_, index_);
    }
    release_session(state_, index_);
  }
  Aggregator(const Aggregator&) = delete;
  Aggregator& operator=(const Aggregator&) = delete;

  // Reads what has been recorded since the last call. Throws std::bad_alloc.
  void read() {
    if (pid_ != state_->pid) return;
    ScopedLock drains(state_->drain_lock);
    if (unload_epoch_ != state_->unload_epoch) {
      totals_.forget_sites();
      unload_epoch_ = state_->unload_epoch;
    }
    take_runs();
    TickConverter clock(knots_, state_->unix_offset_ns);
    stacks_.set_clock(&clock);
    stalled_.clear();
    for (const Run& run : runs_) read_run(run);
    for (const End& end : ends_) join(end);
    ends_.clear();
    stacks_.each_stack([this](uint32_t id, RangeStack& stack) {
      if (std::find(stalled_.begin(), stalled_.end(), id) == stalled_.end())
        stacks_.settle(stack, horizon_);
    });
    read_until_ns_ = clock.to_ns(horizon_);
    stacks_.set_clock(nullptr);
    release_chunks();
    stacks_.forget_empty();
  }

  // Whether the running minute, or hour, has ended: minutes and hours of the Unix clock.
  bool is_over(TotalsWindow window) const noexcept {
    if (window == TotalsWindow::all) return false;
    const int64_t length_ns = (window == TotalsWindow::hour ? 3600 : 60) * int64_t{1000000000};
    return platform::unix_ns() / length_ns != began_ns(window) / length_ns;
  }
  // Begins a new minute, and a new hour if that is over.
  void begin_minute() {
    const bool hour = is_over(TotalsWindow::hour);
    totals_.begin_minute(hour);
    minute_began_ns_ = read_until_ns_;
    if (hour) hour_began_ns_ = read_until_ns_;
  }

  TotalsColumns columns(TotalsWindow window) const { return totals_.columns(window); }
  // When the window began, and until when records have been read, in Unix ns.
  int64_t began_ns(TotalsWindow window) const noexcept {
    return window == TotalsWindow::minute ? minute_began_ns_
           : window == TotalsWindow::hour ? hour_began_ns_
                                          : began_ns_;
  }
  int64_t read_until_ns() const noexcept { return read_until_ns_; }
  // Ranges that have been counted, that are open, and that were not read.
  uint64_t ranges() const noexcept { return stacks_.ranges; }
  uint64_t open() const noexcept { return stacks_.open() + async_.size(); }
  uint64_t dropped() const noexcept {
    uint64_t sum = lost_ + stacks_.unfinished;
    for (const uint64_t& count : state_->sessions[index_].dropped) sum += load_relaxed(&count);
    return sum;
  }
  // The share of max_bytes that was taken when the last read() began.
  double filled() const noexcept { return filled_; }
  size_t names() const noexcept { return totals_.names(); }

 private:
  // Where reading stopped in a chunk.
  struct Place {
    const Slot* next = nullptr;
    uint32_t task = 0;       // that its thread ran; 0: none
    uint32_t unwritten = 0;  // calls that found the next slot reserved and not written
    bool others = false;     // has ranges that are not this session's
  };
  struct Run {
    Chunk* chunk;
    const Slot* end;
    uint32_t track;
    bool closed, shared;
  };
  struct End {
    uint32_t track;
    uint64_t begin, end;
    bool is_async;
  };
  static constexpr size_t kMaxAsync = 1 << 16;
  static constexpr uint32_t kMaxUnwritten = 8;

  void take_runs() {
    runs_.clear();
    StateLock hold(state_);
    horizon_ = ticks(state_);
    add_knot(state_, 8);
    const uint64_t bit = uint64_t{1} << index_;
    for (Track* track = state_->tracks; track != nullptr; track = track->next)
      for (Chunk* chunk = track->oldest; chunk != nullptr; chunk = chunk->next)
        if ((chunk->pins & bit) != 0)
          runs_.push_back({chunk, chunk_written_end(track, chunk), track->id,
                           chunk->place != ChunkPlace::current, chunk->part_bytes != 0});
    filled_ = static_cast<double>(state_->sessions[index_].pinned_chunks) /
              static_cast<double>(state_->sessions[index_].max_chunks);
    // A thread's last records may lie in a chunk that another thread has continued. So ordered,
    // each thread's records are in the order of their begins.
    std::sort(runs_.begin(), runs_.end(),
              [](const Run& a, const Run& b) { return a.chunk->open_ticks < b.chunk->open_ticks; });
    since_ = state_->sessions[index_].t0;
    mask_ = state_->sessions[index_].mask;
    knots_.clear();
    if (state_->knots != nullptr)
      knots_.assign(state_->knots->knots, state_->knots->knots + state_->knots->count);
  }

  void read_run(const Run& run) {
    Place& place = places_[run.chunk];
    if (place.next == nullptr) place.next = chunk_slots(run.chunk);
    while (place.next < run.end) {
      const Slot* end =
          run.shared ? find_thread_end(place.next, run.end, run.chunk->open_ticks) : nullptr;
      const uint32_t track =
          end != nullptr ? static_cast<uint32_t>(load_relaxed(&end->end)) : run.track;
      if (is_stalled(track)) return;
      if (!read_slots(place, track, run.chunk->open_ticks, end != nullptr ? end : run.end)) {
        stalled_.insert(stalled_.end(), {run.track, track});
        if (place.task != 0) stalled_.push_back(place.task);
        if (run.closed && ++place.unwritten > kMaxUnwritten) {  // its thread left it so
          ++lost_;
          place.next = run.end;
        }
        return;
      }
      place.unwritten = 0;
      if (end == nullptr) return;
      place.next = end + record_units(end);
      place.task = 0;
    }
  }

  bool is_stalled(uint32_t id) const noexcept {
    return std::find(stalled_.begin(), stalled_.end(), id) != stalled_.end();
  }

  // Reads one thread's records. Returns false at one that is not written yet.
  bool read_slots(Place& place, uint32_t track, uint64_t open_ticks, const Slot* last) {
    RangeStack* stack = &stacks_.stack_of(place.task != 0 ? place.task : track);
    const Slot* slot = place.next;
    bool written = true;
    while (slot < last) {
      const uint64_t begin = load_acquire(&slot->begin);
      if (FASTPROF_UNLIKELY(begin < open_ticks)) {
        written = false;
        break;
      }
      const uintptr_t word = load_relaxed(&slot->site);
      const Site* site = site_of(word);
      const RecordTag tag = tag_of(word);
      if (FASTPROF_LIKELY(site->kind == SiteKind::range &&
                          (tag == RecordTag::slot || tag == RecordTag::detailed))) {
        if (FASTPROF_LIKELY((site->mask & mask_) != 0 && begin >= since_))
          stacks_.enter(*stack, slot, begin, totals_.row_of(site));
        else
          place.others = true;
      } else if (const uint32_t task = read_other(place.task, slot, begin, site, tag, track);
                 task != place.task) {
        if (place.task != 0) RangeStacks::suspend(*stack, begin);
        place.task = task;
        stack = &stacks_.stack_of(task != 0 ? task : track);
        if (task != 0) stacks_.resume(*stack, begin);
      }
      slot += record_units(slot);
    }
    place.next = slot;
    return written;
  }

  // Reads a record other than a range. Returns the task that its thread runs from here on.
  uint32_t read_other(uint32_t task, const Slot* slot, uint64_t begin, const Site* site,
                      RecordTag tag, uint32_t track) {
    const uint64_t second = load_acquire(&slot->end);
    if (tag == RecordTag::late || tag == RecordTag::cross_thread_end ||
        tag == RecordTag::async_end) {
      const auto* words = reinterpret_cast<const uint64_t*>(slot + 1);
      if ((site->mask & mask_) != 0 && second >= since_)
        ends_.push_back({static_cast<uint32_t>(load_relaxed(&words[0])), second,
                         load_relaxed(&words[2]), tag == RecordTag::async_end});
    } else if (is_task_switch(site)) {
      const TaskWord word = TaskWord::unpack(second);
      return word.ended ? task : word.id;
    } else if (site->kind == SiteKind::async_range && (site->mask & mask_) != 0 &&
               begin >= since_) {
      if (async_.size() < kMaxAsync)
        async_[key_of(track, begin)] = totals_.row_of(site);
      else
        ++lost_;
    }
    return task;
  }

  // Stamps of one thread are distinct, and those of two threads hardly ever equal.
  static uint64_t key_of(uint32_t track, uint64_t begin) noexcept {
    return begin ^ uint64_t { track } << 44;
  }

  void join(const End& end) {
    if (end.is_async) {
      const auto found = async_.find(key_of(end.track, end.begin));
      if (found == async_.end()) return;  // its begin was not read, which is counted
      totals_.add(found->second, stacks_.duration_ns(end.begin, end.end), 0);
      ++stacks_.ranges;
      async_.erase(found);
      return;
    }
    stacks_.end_elsewhere(end.track, end.begin, end.end);
  }

  // Unpins the chunks that are closed and read, and in which no range is open.
  void release_chunks() {
    open_in_.clear();
    stacks_.each_stack([this](uint32_t, RangeStack& stack) {
      for (const RangeStack::Open& each : stack.open) open_in_.push_back(chunk_of(each.slot));
      for (const RangeStack::Open& each : stack.outlive) open_in_.push_back(chunk_of(each.slot));
    });
    std::sort(open_in_.begin(), open_in_.end());
    StateLock hold(state_);
    bool any = false;
    for (const Run& run : runs_) {
      if (!run.closed || places_[run.chunk].next < run.end) continue;
      if (std::binary_search(open_in_.begin(), open_in_.end(), run.chunk)) continue;
      // Spares sweep() a scan for open ranges.
      if (!places_[run.chunk].others) store_relaxed(&run.chunk->quiet_gen, run.chunk->gen);
      finish_chunk(state_, index_, run.chunk);
      places_.erase(run.chunk);
      any = true;
    }
    if (any) sweep(state_);
  }

  State* const state_;
  const uint64_t pid_;
  int index_ = -1;
  NameTotals totals_;
  RangeStacks stacks_;
  std::unordered_map<Chunk*, Place> places_;
  std::unordered_map<uint64_t, uint32_t> async_;  // open async ranges -> their row
  std::vector<Run> runs_;
  std::vector<End> ends_;
  std::vector<Chunk*> open_in_;
  std::vector<uint32_t> stalled_;
  std::vector<ClockKnot> knots_;
  uint64_t horizon_ = 0, since_ = 0, unload_epoch_ = 0, lost_ = 0;
  uint32_t mask_ = 0;
  double filled_ = 0;
  int64_t began_ns_ = 0, minute_began_ns_ = 0, hour_began_ns_ = 0, read_until_ns_ = 0;
};

FASTPROF_NAMESPACE_END
