// SPDX-License-Identifier: Apache-2.0
// TrackLayout: assigns each row to a lane of the trace viewer such that the slices of a lane nest
// properly. Viewers drop or misplace slices that overlap partly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/validate.hpp"

FASTPROF_NAMESPACE_BEGIN

// A lane: a thread, a task that ran on it, or an additional row of the viewer below either.
struct TraceLane {
  enum class Use : uint8_t { thread, task, async, overlap };
  uint32_t track = 0;  // index into Capture::tracks
  Use use = Use::thread;
  // Of a task: the lane of its thread; its own number if the capture does not have the thread.
  uint32_t thread_lane = 0;
  bool real_tid = true;  // tid is the thread's own id, not an invented one
  int64_t tid = 0;       // >= 0, below 2^31; no two lanes of a process have the same
  std::string name;
};

// Lanes 0 to tracks-1 are the threads and tasks. A synchronous range is placed on its thread, or on
// its parent's lane if that was moved; if it overlaps a slice there partly, the shorter of the two
// goes to an overlap lane: a range that a program's own __enter__ begins stays, with all that is in
// it, and the call goes. Async ranges and ranges that ended on another thread go to async lanes, on
// which nothing nests. Other rows follow their parent. Free lanes are reused, so a thread has as
// many as overlap at any one time.
class TrackLayout {
 public:
  explicit TrackLayout(const Capture& capture) : lane_of_row_(capture.size()) {
    name_threads(capture);
    size_t first = 0;
    while (first < capture.size()) {
      const uint32_t track = capture.track[first];
      size_t last = first;
      while (last < capture.size() && capture.track[last] == track) ++last;
      lay_out(capture, track, first, last);
      first = last;
    }
  }

  const std::vector<TraceLane>& lanes() const noexcept { return lanes_; }
  uint32_t lane_of(size_t row) const noexcept { return lane_of_row_[row]; }

 private:
  struct Slice {
    int64_t end_ns;
    size_t row;
  };
  // The open slices of a lane, outermost first.
  struct Open {
    std::vector<Slice> slices;
    // Adds [start, end) and returns true if it nests with the open slices.
    bool fits(int64_t start, int64_t end, size_t row) {
      while (!slices.empty() && slices.back().end_ns <= start) slices.pop_back();
      if (!slices.empty() && end > slices.back().end_ns) return false;
      slices.push_back({end, row});
      return true;
    }
    // The outermost slice that a range until `end` overlaps partly; one is, after fits() was false.
    size_t first_before(int64_t end) const {
      size_t i = slices.size() - 1;
      while (i > 0 && slices[i - 1].end_ns < end) --i;
      return i;
    }
  };
  // Lanes of one use and track, the one that becomes free first on top.
  using Busy = std::pair<int64_t, uint32_t>;  // end of its outermost slice, lane
  using Pool = std::priority_queue<Busy, std::vector<Busy>, std::greater<Busy>>;

  void name_threads(const Capture& capture) {
    std::set<std::pair<int64_t, int64_t>> used;  // (pid, tid)
    for (const TrackInfo& track : capture.tracks)
      next_tid_ = std::max(next_tid_, valid_tid(track.tid) ? track.tid : 0);
    next_tid_ = std::max(next_tid_, kLargestLinuxTid) + 1;
    std::unordered_map<uint32_t, uint32_t> thread_lanes;
    for (size_t i = 0; i < capture.tracks.size(); ++i)
      if (!capture.tracks[i].is_task())
        thread_lanes.emplace(capture.tracks[i].id, static_cast<uint32_t>(i));
    for (size_t i = 0; i < capture.tracks.size(); ++i) {
      const TrackInfo& track = capture.tracks[i];
      TraceLane lane;
      lane.track = static_cast<uint32_t>(i);
      if (track.is_task()) {
        const auto thread = thread_lanes.find(track.id_of_thread());
        lane.use = TraceLane::Use::task;
        lane.thread_lane = thread == thread_lanes.end() ? lane.track : thread->second;
        lane.real_tid = false;
        lane.tid = next_tid_++;
        lane.name = track.name;
        lanes_.push_back(std::move(lane));
        continue;
      }
      if (track.is_device()) {
        // The queue's number is used unchanged: a device is a process of its own in traces.
        lane.tid = track.tid;
        lane.real_tid = false;
        lane.name = track.name.empty() ? "stream " + std::to_string(track.tid) : track.name;
        lanes_.push_back(std::move(lane));
        continue;
      }
      lane.name = track.name.empty() ? "thread " + std::to_string(track.tid) : track.name;
      if (valid_tid(track.tid) && used.emplace(track.pid, track.tid).second) {
        lane.tid = track.tid;
      } else {  // the tid was reused by a later thread of the process, or is invalid
        lane.real_tid = false;
        lane.tid = next_tid_++;
        lane.name += " (tid " + std::to_string(track.tid) + ")";
      }
      lanes_.push_back(std::move(lane));
    }
  }

  void lay_out(const Capture& capture, uint32_t track, size_t first, size_t last) {
    Open on_thread;
    std::vector<Open> open;  // of the lanes from `base` on
    const auto base = static_cast<uint32_t>(lanes_.size());
    Pool async, overlap;
    uint32_t async_lanes = 0, overlap_lanes = 0;
    for (size_t row = first; row < last; ++row) {
      const int32_t parent = capture.parent[row];
      const uint32_t beside = parent >= 0 ? lane_of_row_[static_cast<size_t>(parent)] : track;
      lane_of_row_[row] = beside;
      if (!is_any_range(capture.kind[row])) continue;
      const int64_t start = capture.start_ns[row];
      const int64_t end = std::max(start, capture.end_ns[row]);
      const bool nests = is_nesting_range(capture, row);
      const auto opened = [&]() -> Open& {
        return beside == track ? on_thread : open[beside - base];
      };
      if (nests && FASTPROF_LIKELY(opened().fits(start, end, row))) continue;
      // A lane that is free from `from_ns` until `end_ns`.
      const auto take_lane = [&](int64_t from_ns, int64_t end_ns) {
        Pool& pool = nests ? overlap : async;
        uint32_t lane;
        if (!pool.empty() && pool.top().first <= from_ns) {
          lane = pool.top().second;
          pool.pop();
          open[lane - base].slices.clear();
        } else {
          lane = static_cast<uint32_t>(lanes_.size());
          uint32_t& count = nests ? overlap_lanes : async_lanes;
          add_lane(track, nests ? TraceLane::Use::overlap : TraceLane::Use::async, count++);
          open.emplace_back();
        }
        pool.emplace(end_ns, lane);
        return lane;
      };
      if (nests) {
        const size_t at = opened().first_before(end);
        const Slice earlier = opened().slices[at];
        const int64_t from_ns = capture.start_ns[earlier.row];
        if (row - earlier.row <= kMostMoved && earlier.end_ns - from_ns < end - start) {
          const uint32_t lane = take_lane(from_ns, earlier.end_ns);
          std::vector<Slice>& left = opened().slices;
          const auto moved = left.begin() + static_cast<std::ptrdiff_t>(at);
          open[lane - base].slices.assign(moved, left.end());
          left.erase(moved, left.end());
          left.push_back({end, row});
          for (size_t i = earlier.row; i < row; ++i)
            if (lane_of_row_[i] == beside) lane_of_row_[i] = lane;
          continue;
        }
      }
      const uint32_t lane = take_lane(start, end);
      open[lane - base].slices.push_back({end, row});
      lane_of_row_[row] = lane;
    }
  }

  void add_lane(uint32_t track, TraceLane::Use use, uint32_t number) {
    TraceLane lane;
    lane.track = track;
    lane.use = use;
    lane.real_tid = false;
    lane.tid = next_tid_++;
    lane.name = lanes_[track].name +
                (use == TraceLane::Use::async ? ": async " : ": overlapping ") +
                std::to_string(number);
    lanes_.push_back(std::move(lane));
  }

  static bool valid_tid(int64_t tid) noexcept { return tid >= 0 && tid < (int64_t{1} << 30); }
  static constexpr int64_t kLargestLinuxTid = 1 << 22;  // PID_MAX_LIMIT
  static constexpr size_t kMostMoved = 64;  // rows of a slice that is moved: a row is moved often

  std::vector<uint32_t> lane_of_row_;
  std::vector<TraceLane> lanes_;
  int64_t next_tid_ = 0;
};

FASTPROF_NAMESPACE_END
