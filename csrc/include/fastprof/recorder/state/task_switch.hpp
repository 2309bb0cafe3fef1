// SPDX-License-Identifier: Apache-2.0
// Task switches: records that say which task (coroutine, fiber) a thread runs. The drain gives each
// task a track of its own, so that the ranges of interleaved tasks nest by task.
//
// A task switch is a mark of category::task, so that sessions of older libraries can read it. Its
// second word holds the task. A thread repeats its current task at the start of every chunk, so
// that a chunk by itself determines whose records it contains, as with session membership.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/make_site.hpp"
#include "fastprof/recorder/state/slot.hpp"
#include "fastprof/recorder/state/state.hpp"
#include "fastprof/recorder/state/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN

// Prototype of the sites of task switches: intern the task's name with it (session_site). By itself
// it is the site of a thread that runs no task, and of tasks for whose names there is no room.
inline constexpr Site task_switch_site = in_category(
    make_site(SiteKind::mark, category::task, RecordScope::USER_SCOPE, "task", "", "", 0), "task");

// The second word of a task switch.
struct TaskWord {
  // Numbers are shown behind a name that many tasks share; larger ones are left out.
  static constexpr uint32_t kMaxNumber = (1u << 31) - 1;

  uint32_t id = 0;      // unique over the process's life, as track ids are; 0: no task
  uint32_t number = 0;  // 1 to kMaxNumber; 0: none
  // The task has ended. The record changes nothing else: a switch to what runs next follows.
  bool ended = false;

  constexpr uint64_t packed() const noexcept {
    return uint64_t{id} << 32 | (ended ? uint64_t{1} << 31 : 0) | (number & kMaxNumber);
  }
  static constexpr TaskWord unpack(uint64_t word) noexcept {
    return {static_cast<uint32_t>(word >> 32), static_cast<uint32_t>(word) & kMaxNumber,
            (word >> 31 & 1) != 0};
  }
};

constexpr bool is_task_switch(const Site* site) noexcept {
  return site->kind == SiteKind::mark && site->mask == category::task;
}

// Writes the track's current task into a reserved slot at the start of a chunk. Returns the next
// slot; the same one if the thread has never run a task. State::lock held.
inline Slot* repeat_task(State* s, const Track* track, Slot* slot) noexcept {
  if (track->task_site == nullptr) return slot;
  // The name may have been reclaimed since.
  const bool known = track->task_epoch == load_relaxed(&s->name_epoch);
  store_relaxed(&slot->end, known ? track->task_word : uint64_t{0});
  store_relaxed(&slot->site,
                reinterpret_cast<uintptr_t>(known ? track->task_site : &task_switch_site));
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  store_release(&slot->begin, ticks(s));
  return slot + 1;
}

FASTPROF_NAMESPACE_END
