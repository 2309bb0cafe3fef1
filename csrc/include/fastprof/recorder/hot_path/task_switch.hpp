// SPDX-License-Identifier: Apache-2.0
// Writing task switches, for whoever runs tasks: event loops, schedulers of fibers.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/record.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"
#include "fastprof/recorder/state/lock.hpp"
#include "fastprof/recorder/state/task_switch.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns an id for a new task. Any thread; 30 ns.
inline uint32_t new_task_id() noexcept {
  State* s = state();
  StateLock hold(s);
  return ++s->next_track_id;
}

// Records that the calling thread runs this task from now on (word.id 0: none), or that the task
// has ended. site: task_switch_site, or one made of it by session_site under a NameUse that the
// caller still holds. Costs a record; nothing if no session records tasks.
inline void record_task_switch(const Site* site, TaskWord word) noexcept {
  Track* track = current_track();
  if (track == nullptr) return;
  State* s = state();
  if (!word.ended) {
    track->task_word = word.packed();
    track->task_site = site;
    track->task_epoch = load_relaxed(&s->name_epoch);
  }
  ThreadBlock* block = thread_block();
  if (!wanted(s, block, category::task)) return;
  // Mask 0: a switch is not an event, so one for which there is no room is not counted as dropped.
  // The thread's chunk ends there, and its next chunk repeats the current task.
  if (Slot* slot = reserve(s, block, 1, 0))
    stamp_slot_any_clock(s, slot, word.packed(), reinterpret_cast<uintptr_t>(site));
}

// The calling thread's current task; id 0 if it runs none. (Not current_task: Darwin has a macro of
// that name.)
inline TaskWord task_of_this_thread() noexcept {
  const Track* track = thread_block()->track;
  return track == nullptr || track->task_site == nullptr ? TaskWord{}
                                                         : TaskWord::unpack(track->task_word);
}

FASTPROF_NAMESPACE_END
