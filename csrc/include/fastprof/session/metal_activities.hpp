// SPDX-License-Identifier: Apache-2.0
// MetalActivities: observes the work of a metal::Profiler and makes Activities of it, so that it
// appears in sessions below the ranges that launched it.
//
//   auto observed = std::make_shared<MetalActivities>(platform);
//   profiler->set_observer(observed);
//   const uint64_t collection = observed->open();
//   session.start();
//   work();
//   session.add_activities(observed->close(collection));
//   session.stop();
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/base/json_escape.hpp"
#include "fastprof/metal/observer.hpp"
#include "fastprof/metal/platform.hpp"
#include "fastprof/primitives/device.hpp"
#include "fastprof/recorder/state/ticks.hpp"
#include "fastprof/recorder/store/calibration.hpp"
#include "fastprof/recorder/store/track.hpp"
#include "fastprof/session/activities.hpp"
#include "fastprof/session/clock_line.hpp"

FASTPROF_NAMESPACE_BEGIN

// A call that encodes or commits is a row of its thread; a command buffer is one row on the track
// of its queue, named after what is known of it. All functions may be called from any thread; the
// platform must outlive the object.
class MetalActivities final : public metal::ExecutionObserver {
 public:
  // Maximum number of works kept; further ones are counted as dropped.
  static constexpr size_t kMaxWorks = size_t{1} << 22;

  explicit MetalActivities(metal::Platform& platform) : platform_(platform) {}

  // Begins a collection and returns its number. Any number may be open.
  uint64_t open() {
    const std::lock_guard<std::mutex> hold(lock_);
    Collection collection;
    collection.first = base_ + works_.size();
    collection.refused_before = refused_;
    collection.begin = clocks();
    collection.begin_ns = platform::monotonic_ns();
    collections_.emplace(++last_, collection);
    return last_;
  }

  // Ends a collection and returns what began since open(), after waiting at most timeout_s seconds
  // for work that has been committed. `unfinished`: receives the number of works that the GPU had
  // not completed then, which are among those dropped. Raises StateError for an unknown number.
  Activities close(uint64_t number, double timeout_s = 10.0, uint64_t* unfinished = nullptr) {
    std::unique_lock<std::mutex> hold(lock_);
    const auto at = collections_.find(number);
    if (at == collections_.end())
      raise<StateError>(
          "this collection of Metal activities has ended already: close each collection once");
    const Collection collection = at->second;
    const uint64_t until = base_ + works_.size();
    completed_.wait_for(hold, std::chrono::duration<double>(timeout_s), [&] {
      for (uint64_t i = collection.first; i < until; ++i)
        if (works_[i - base_].waits()) return false;
      return true;
    });
    collections_.erase(number);
    const ClockReading now = clocks();
    const double elapsed = static_cast<double>(platform::monotonic_ns() - collection.begin_ns);
    const double ticks_per_ns =
        elapsed > 0 ? static_cast<double>(now.ticks - collection.begin.ticks) / elapsed : 1.0;
    Rows rows(ClockLine::between(collection.begin, now, ticks_per_ns), now.ticks);
    rows.add_all(works_, collection.first - base_, until - base_);
    rows.found.dropped = rows.unfinished + refused_ - collection.refused_before;
    if (unfinished != nullptr) *unfinished = rows.unfinished;
    forget();
    return std::move(rows.found);
  }

  // Ends a collection without reading it. No effect for an unknown number.
  void abandon(uint64_t number) noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    collections_.erase(number);
    forget();
  }

  uint64_t begun(const metal::Work& work) noexcept override {
    return add([&work](Seen& seen) { seen.work = work; });
  }
  void ended(uint64_t number, const metal::Queue* queue) noexcept override {
    change(number, [queue](Seen& seen) {
      seen.end = ticks(state());
      if (queue != nullptr) seen.queue = *queue;
    });
  }
  void completed(uint64_t number, const metal::BufferTimes& times) noexcept override {
    change(number, [&times](Seen& seen) {
      seen.times = times;
      seen.is_complete = true;
    });
  }

 private:
  // One work or commit, with the data received so far.
  struct Seen {
    metal::Work work;
    bool is_complete = false;
    uint32_t thread = 0;
    uint64_t begin = 0, end = 0;  // ticks of the call; end 0: it has not returned
    metal::Queue queue;
    metal::BufferTimes times;

    bool waits() const noexcept { return work.on_gpu && end != 0 && !is_complete; }
  };

  struct Collection {
    uint64_t first = 0;  // number of the first work
    uint64_t refused_before = 0;
    ClockReading begin;
    int64_t begin_ns = 0;
  };

  // Makes Activities of works.
  struct Rows {
    Rows(const ClockLine& line, uint64_t end_ticks) : clock(line), now(end_ticks) {}

    void add_all(const std::deque<Seen>& works, size_t first, size_t until) {
      // A command buffer that contains several profiled works is one row, made for the last of
      // them.
      std::map<std::pair<uint64_t, double>, std::vector<size_t>> buffers;
      for (size_t i = first; i < until; ++i)
        if (works[i].is_complete) buffers[key(works[i])].push_back(i);
      for (size_t i = first; i < until; ++i) {
        const Seen& seen = works[i];
        const uint32_t correlation = ++correlations;
        add_call(seen, correlation);
        if (!seen.work.on_gpu) continue;
        if (!seen.is_complete) {
          ++unfinished;
          continue;
        }
        const std::vector<size_t>& together = buffers.find(key(seen))->second;
        if (together.back() == i) add_work(seen, correlation, together, works);
      }
    }

    static std::pair<uint64_t, double> key(const Seen& seen) {
      return {seen.times.buffer, seen.times.gpu_start_s};
    }

    void add_call(const Seen& seen, uint32_t correlation) {
      std::string name;
      if (seen.work.is_commit)
        name = "MTLCommandBuffer commit";
      else if (seen.work.kind == metal::WorkKind::cpu_fallback)
        name = "CPU fallback: " + seen.work.name;
      else if (seen.work.kind == metal::WorkKind::copy)
        name = (seen.work.on_gpu ? "blit copy " : "memcpy ") + seen.work.name;
      else
        name = "encode " + seen.work.name;
      add(seen.begin, std::max(seen.begin, seen.end != 0 ? seen.end : now), correlation,
          site(name, "mps_runtime", nullptr, false), thread_place(seen.thread), kNoPayload);
      found.words.push_back(correlation);
    }

    // together: all works of the command buffer.
    void add_work(const Seen& seen, uint32_t correlation, const std::vector<size_t>& together,
                  const std::deque<Seen>& works) {
      const bool copies = together.size() == 1 && seen.work.kind == metal::WorkKind::copy;
      const std::string name =
          together.size() > 1 ? std::to_string(together.size()) + " operations" : seen.work.name;
      std::string text = "{";
      if (together.size() > 1) {
        text += "\"operations\":[";
        for (size_t i = 0; i < together.size(); ++i) {
          if (i != 0) text += ",";
          append_json_string(text, works[together[i]].work.name);
        }
        text += "]";
      }
      if (!seen.times.error.empty()) {
        text += text.size() > 1 ? ",\"error\":" : "\"error\":";
        append_json_string(text, seen.times.error);
      }
      text += "}";
      uint32_t text_index = kNoPayload;
      if (text.size() > 2) {
        text_index = static_cast<uint32_t>(found.texts.size());
        found.texts.push_back(std::move(text));
      }
      // A command buffer that failed before it ran has no times: its row is at its commit.
      const uint64_t at_commit = std::max(seen.end, seen.begin);
      const bool ran = seen.times.gpu_start_s > 0;
      const uint64_t begin = ran ? ticks_of(seen.times.gpu_start_s) : at_commit;
      const uint64_t end = ran ? std::max(begin, ticks_of(seen.times.gpu_end_s)) : at_commit;
      const uint32_t place = queue_place(seen.queue);
      add(begin, end, correlation,
          site(name, copies ? "gpu_memcpy" : "kernel", &seen.queue, copies), place, text_index);
      found.words.push_back(static_cast<uint64_t>(seen.queue.device_index));
      found.words.push_back(static_cast<uint64_t>(found.places[place].id));
      found.words.push_back(correlation);
      const double scheduling_us = seen.times.kernel_ms() * 1e3;
      uint64_t bits;
      std::memcpy(&bits, &scheduling_us, sizeof bits);
      found.words.push_back(bits);
      if (copies) found.words.push_back(seen.work.bytes);
    }

    uint64_t ticks_of(double host_s) const {
      return clock.ticks_of(static_cast<uint64_t>(host_s * 1e9));
    }

    void add(uint64_t begin, uint64_t end, uint32_t correlation, uint32_t site_index,
             uint32_t place, uint32_t text) {
      Activity row;
      row.begin = begin;
      row.end = end;
      row.correlation = correlation;
      row.site = site_index;
      row.place = place;
      row.text = text;
      row.words = found.words.size();
      found.rows.push_back(row);
    }

    // queue: null for calls.
    uint32_t site(const std::string& name, const char* category, const metal::Queue* queue,
                  bool has_bytes) {
      const int32_t device = queue != nullptr ? queue->device_index : -1;
      const auto [at, fresh] = sites.try_emplace(std::to_string(device) + category + '\0' + name,
                                                 static_cast<uint32_t>(found.sites.size()));
      if (!fresh) return at->second;
      SiteInfo made;
      made.name = name;
      made.category = category;
      made.kind = EventKind::range;
      made.mask = queue == nullptr ? category::runtime : category::device;
      made.scope = RecordScope::FUNCTION;
      const auto argument = [&made](const char* argument_name, ArgType type = ArgType::int64) {
        made.arg_names.emplace_back(argument_name);
        made.arg_types.push_back(type);
      };
      if (queue == nullptr) {
        argument("correlation");
      } else {
        made.device_type = static_cast<int16_t>(DeviceType::MPS);
        made.device_index = static_cast<int16_t>(device);
        for (const char* each : {"device", "queue", "correlation"}) argument(each);
        argument("scheduling (us)", ArgType::float64);
        if (has_bytes) argument("bytes");
      }
      found.sites.push_back(std::move(made));
      return at->second;
    }

    uint32_t thread_place(uint32_t thread) {
      const auto [at, fresh] =
          threads.try_emplace(thread, static_cast<uint32_t>(found.places.size()));
      if (fresh) {
        ActivityPlace place;
        place.id = thread;
        found.places.push_back(std::move(place));
      }
      return at->second;
    }
    uint32_t queue_place(const metal::Queue& queue) {
      const auto [at, fresh] = queues.try_emplace({queue.device_index, queue.id},
                                                  static_cast<uint32_t>(found.places.size()));
      if (fresh) {
        ActivityPlace place;
        place.device_index = queue.device_index;
        place.id = static_cast<int64_t>(queues.size());
        place.name = queue.name.empty() ? "queue " + std::to_string(queues.size()) : queue.name;
        found.places.push_back(std::move(place));
      }
      return at->second;
    }

    const ClockLine clock;
    const uint64_t now;
    Activities found;
    uint64_t unfinished = 0;
    uint32_t correlations = 0;
    std::unordered_map<std::string, uint32_t> sites;
    std::unordered_map<uint32_t, uint32_t> threads;
    std::map<std::pair<int32_t, uint64_t>, uint32_t> queues;
  };

  ClockReading clocks() {
    return read_both_clocks(
        [this] { return static_cast<uint64_t>(platform_.host_time_s() * 1e9); });
  }

  template <class Fill>
  uint64_t add(Fill fill) noexcept {
    const uint64_t begin = ticks(state());
    const std::lock_guard<std::mutex> hold(lock_);
    if (collections_.empty()) return 0;
    if (works_.size() >= kMaxWorks) {
      ++refused_;
      return 0;
    }
    works_.emplace_back();
    Seen& seen = works_.back();
    fill(seen);
    seen.begin = begin;
    seen.thread = platform::thread_id();
    return base_ + works_.size();  // its index + 1
  }
  template <class Change>
  void change(uint64_t number, Change with) noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    if (number <= base_ || number > base_ + works_.size())
      return;  // all its collections have ended
    with(works_[number - 1 - base_]);
    completed_.notify_all();
  }
  // Discards the works that belong to no open collection. Lock held.
  void forget() {
    uint64_t first = base_ + works_.size();
    for (const auto& [number, collection] : collections_) first = std::min(first, collection.first);
    works_.erase(works_.begin(), works_.begin() + static_cast<ptrdiff_t>(first - base_));
    base_ = first;
  }

  metal::Platform& platform_;
  std::mutex lock_;
  std::condition_variable completed_;
  std::deque<Seen> works_;
  uint64_t base_ = 0;  // number of the first of works_
  uint64_t refused_ = 0;
  uint64_t last_ = 0;
  std::map<uint64_t, Collection> collections_;
};

FASTPROF_NAMESPACE_END
