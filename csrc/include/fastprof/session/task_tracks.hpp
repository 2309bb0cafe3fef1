// SPDX-License-Identifier: Apache-2.0
// Task tracks: gives each task (task_switch.hpp) a track of its own, with the rows that were
// recorded while threads ran it, a row for the task and one for each time that it was suspended.
//
// Rows of a task nest among themselves, whatever other tasks its thread ran meanwhile: a range that
// is open across a suspension contains the row "await" of that suspension. A thread keeps the rows
// that it recorded outside of tasks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/stable_order.hpp"
#include "fastprof/recorder/state/task_switch.hpp"
#include "fastprof/session/join_ends.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace assembling {

// What is known of one task.
struct Task {
  TrackRows rows;
  CrossThreadEnds crossed;
  std::vector<std::pair<uint64_t, uint64_t>> steps;  // [from, to) in ticks, within the session
  size_t thread = 0;                                 // index of the track of its first thread
  size_t last_thread = 0;
  uint32_t site = 0;
  uint32_t number = 0;
  uint64_t ended = 0;  // 0: not in the session
  bool sorted = true;
  bool in_session = false;
};

// Splits the rows of threads by task.
class TaskSplit {
 public:
  TaskSplit(DrainedRows& drained, std::vector<CrossThreadEnds>& crossed, const Snapshot& snapshot)
      : drained_(drained),
        crossed_(crossed),
        since_(snapshot.tasks_since != 0 ? snapshot.tasks_since : snapshot.t0),
        t0_(snapshot.t0),
        t1_(snapshot.t1) {}

  void run() {
    std::vector<TrackRows>& tracks = drained_.tracks;
    const auto has_no_switches = [](const TrackRows& rows) { return rows.switches.empty(); };
    if (std::all_of(tracks.begin(), tracks.end(), has_no_switches)) return;
    for (size_t thread = 0; thread < tracks.size(); ++thread)
      if (!tracks[thread].switches.empty()) split(thread);
    const size_t threads = tracks.size();
    std::vector<size_t> thread_of;
    for (size_t thread = 0; thread < threads; ++thread) thread_of.push_back(thread);
    for (Task& task : tasks_) {
      // Tasks that ran outside the session, or on a thread that does not belong to it.
      if (task.rows.size() == 0 && (!task.in_session || task.steps.empty())) continue;
      finish(task);
      thread_of.push_back(task.thread);
      tracks.push_back(std::move(task.rows));
      crossed_.push_back(std::move(task.crossed));
    }
    // The tasks of a thread follow it, in the order of their begins.
    const std::vector<uint32_t> order = stable_order(tracks.size(), [&](uint32_t a, uint32_t b) {
      if (thread_of[a] != thread_of[b]) return thread_of[a] < thread_of[b];
      if (a < threads || b < threads) return a < b;
      return tracks[a].begin[0] < tracks[b].begin[0];
    });
    put_in_order(tracks, order);
    put_in_order(crossed_, order);
  }

 private:
  Task& task_of(uint32_t id, size_t thread) {
    const auto [at, fresh] = index_.try_emplace(id, tasks_.size());
    if (fresh) {
      tasks_.emplace_back();
      tasks_.back().thread = tasks_.back().last_thread = thread;
      tasks_.back().rows.info.id = id;
    }
    Task& task = tasks_[at->second];
    if (task.last_thread != thread) task.sorted = false;  // its rows may not be in order of begin
    task.last_thread = thread;
    return task;
  }

  // Moves the rows of a thread that belong to tasks, and collects the tasks' steps.
  void split(size_t thread) {
    TrackRows& rows = drained_.tracks[thread];
    std::vector<TaskSwitch> switches = std::move(rows.switches);
    rows.switches.clear();
    const auto before = [](const TaskSwitch& a, const TaskSwitch& b) { return a.at < b.at; };
    if (!std::is_sorted(switches.begin(), switches.end(), before))
      std::stable_sort(switches.begin(), switches.end(), before);
    TrackRows kept;
    kept.info = rows.info;
    CrossThreadEnds kept_crossed;
    const CrossThreadEnds crossed = std::move(crossed_[thread]);
    size_t row = 0, cross = 0;
    Task* task = nullptr;  // the running task; null: none
    uint64_t since = 0;
    const auto move_rows_before = [&](uint64_t at) {
      TrackRows& to = task != nullptr ? task->rows : kept;
      CrossThreadEnds& to_crossed = task != nullptr ? task->crossed : kept_crossed;
      for (; row < rows.size() && static_cast<uint64_t>(rows.begin[row]) < at; ++row) {
        if (cross < crossed.size() && crossed[cross].first == row)
          to_crossed.emplace_back(static_cast<uint32_t>(to.size()), crossed[cross++].second);
        append_row(to, rows, row);
      }
    };
    for (const TaskSwitch& each : switches) {
      if (each.at < since_) continue;
      if (each.at >= t1_) break;
      const TaskWord word = TaskWord::unpack(each.word);
      Task* named = word.id == 0                                       ? nullptr
                    : task != nullptr && task->rows.info.id == word.id ? task
                                                                       : &task_of(word.id, thread);
      if (named != nullptr) {  // the last name counts: a task may be named after its first step
        named->site = each.site;
        named->number = word.number;
        named->in_session |= each.in_session;
      }
      if (word.ended) {
        if (named != nullptr && each.at >= t0_) named->ended = each.at;
        continue;
      }
      if (named == task) continue;  // the repetition at the start of a chunk (repeat_task)
      move_rows_before(each.at);
      end_step(task, since, each.at);
      since = each.at;
      task = named;
    }
    move_rows_before(UINT64_MAX);
    end_step(task, since, t1_);
    rows = std::move(kept);
    crossed_[thread] = std::move(kept_crossed);
  }

  void end_step(Task* task, uint64_t from, uint64_t to) {
    if (task == nullptr || to <= t0_ || from >= t1_) return;
    task->steps.emplace_back(std::max(from, t0_), std::min(to, t1_));
  }

  static void append_row(TrackRows& to, const TrackRows& from, size_t row) {
    to.add(static_cast<uint64_t>(from.begin[row]), static_cast<uint64_t>(from.end[row]),
           from.site[row], from.kind[row], from.payload[row], from.flags[row]);
  }

  // Index of the site of the task's row, which is a range with the name of the switches' site.
  uint32_t range_site(uint32_t from) {
    const auto [at, fresh] = range_sites_.try_emplace(from, 0);
    if (fresh) {
      SiteInfo site = drained_.task_names.sites[from];
      site.kind = EventKind::range;
      site.category = kTaskCategory;
      at->second = static_cast<uint32_t>(drained_.table.sites.size());
      drained_.table.sites.push_back(std::move(site));
    }
    return at->second;
  }

  uint32_t await_site() {
    if (await_site_ == UINT32_MAX) {
      SiteInfo site;
      site.name = "await";
      site.category = kAwaitCategory;
      site.mask = category::task;
      await_site_ = static_cast<uint32_t>(drained_.table.sites.size());
      drained_.table.sites.push_back(std::move(site));
    }
    return await_site_;
  }

  // Puts the rows of a task that ran on several threads in order.
  static void sort_rows(Task& task) {
    const std::vector<uint32_t> order = stable_order(task.rows.size(), [&](uint32_t a, uint32_t b) {
      return task.rows.begin[a] < task.rows.begin[b];
    });
    std::vector<uint32_t> moved(order.size());
    for (size_t i = 0; i < order.size(); ++i) moved[order[i]] = static_cast<uint32_t>(i);
    for (auto& [row, ending] : task.crossed) row = moved[row];
    std::sort(task.crossed.begin(), task.crossed.end());
    sort_by_begin(task.rows);
  }

  // Adds the task's own row and its suspensions, and describes its track.
  void finish(Task& task) {
    TrackInfo& info = task.rows.info;
    const TrackInfo& thread = drained_.tracks[task.thread].info;
    info.pid = thread.pid;
    info.tid = thread.tid;
    info.thread_id = thread.id;
    info.name = drained_.task_names.sites[task.site].name;
    if (task.number != 0) info.name += " (Task-" + std::to_string(task.number) + ")";
    if (!task.sorted) {
      sort_rows(task);
      std::sort(task.steps.begin(), task.steps.end());
    }
    TrackRows rows;
    const size_t most = task.rows.size() + task.steps.size() + 1;
    rows.each_column([most](auto& column) { column.reserve(most); });
    std::vector<uint32_t> moved(task.rows.size());
    const size_t known = task.rows.size();
    size_t next = 0;
    const auto take_rows_before = [&](uint64_t at) {
      for (; next < known && static_cast<uint64_t>(task.rows.begin[next]) < at; ++next) {
        moved[next] = static_cast<uint32_t>(rows.size());
        append_row(rows, task.rows, next);
      }
    };
    if (!task.steps.empty()) {
      const uint64_t begin = task.steps.front().first;
      const uint64_t last = task.steps.back().second;
      info.alive = task.ended == 0;
      take_rows_before(begin);  // ranges that were open at the start
      rows.add(begin, task.ended == 0 ? 0 : std::max(task.ended, begin), range_site(task.site),
               EventKind::range);
      for (size_t step = 1; step < task.steps.size(); ++step) {
        const uint64_t from = task.steps[step - 1].second, to = task.steps[step].first;
        if (from >= to) continue;  // stamps of two threads differ by up to 0.25 us
        take_rows_before(from);
        rows.add(from, to, await_site(), EventKind::range);
      }
      if (task.ended == 0 && last < t1_) {
        take_rows_before(last);
        rows.add(last, 0, await_site(), EventKind::range);
      }
    }
    take_rows_before(UINT64_MAX);
    for (auto& [row, ending] : task.crossed) row = moved[row];
    rows.info = std::move(info);
    task.rows = std::move(rows);
  }

  DrainedRows& drained_;
  std::vector<CrossThreadEnds>& crossed_;
  const uint64_t since_, t0_, t1_;
  std::deque<Task> tasks_;  // a deque: references stay valid while tasks are added
  std::unordered_map<uint32_t, size_t> index_;  // task id -> index in tasks_
  std::unordered_map<uint32_t, uint32_t> range_sites_;
  uint32_t await_site_ = UINT32_MAX;
};

}  // namespace assembling

FASTPROF_NAMESPACE_END
