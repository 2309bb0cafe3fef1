// SPDX-License-Identifier: Apache-2.0
// Attaching and leading: the constructor of a library that can lead the process's recorder (because
// it has a Session or observers), and the functions that the elected leader provides to all
// libraries.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/leader/begin_function.hpp"
#include "fastprof/leader/fork.hpp"
#include "fastprof/leader/thread_detail.hpp"
#include "fastprof/leader/unload.hpp"
#include "fastprof/platform/load_hooks.hpp"
#include "fastprof/primitives/fork.hpp"
#include "fastprof/primitives/memory_reporting.hpp"
#include "fastprof/primitives/range_dispatch.hpp"
#include "fastprof/primitives/set_node_id.hpp"
#include "fastprof/primitives/thread_primitives.hpp"
#include "fastprof/recorder/names/insert_names.hpp"
#include "fastprof/recorder/names/module_sites.hpp"
#include "fastprof/recorder/process/clock_choice.hpp"
#include "fastprof/recorder/process/join.hpp"
#include "fastprof/recorder/state/abi_layout.hpp"
#include "fastprof/recorder/state/abi_minor.hpp"
#include "fastprof/recorder/store/reserve.hpp"

FASTPROF_NAMESPACE_BEGIN

// Leader functions, see RecorderFunctions.
inline ThreadPrimitives* leader_primitives(State* s, ThreadBlock* block) noexcept {
  Track* track = leader_track(s, block);
  if (track == nullptr) return nullptr;
  if (track->primitives == nullptr) track->primitives = new_thread_primitives(track->id);
  return track->primitives;
}
inline void* leader_dispatch_begin(State*, const Site* site, const uint64_t* args) noexcept {
  return dispatch_begin(*site, args);
}
inline void leader_dispatch_end(State*, void* token) noexcept {
  dispatch_end(token);
}

// Runs at thread exit, after all C++ thread_local destructors of the thread.
inline void leader_thread_exit(void* argument) noexcept {
  auto* block = static_cast<ThreadBlock*>(argument);
  State* s = state();
  if (Track* track = block->track) {
    close_track_detail(track);
    // Repeated, because a destructor of the user's debug info may create new primitives.
    for (int round = 0; round < 4 && track->primitives != nullptr; ++round) {
      ThreadPrimitives* primitives = track->primitives;
      track->primitives = nullptr;
      delete_thread_primitives(primitives);
    }
    track->primitives = nullptr;
  }
  retire_track(s, block);
}

// The table that State::functions of a leader points to.
inline constexpr RecorderFunctions leader_functions = {
    &leader_reserve_slow,   &leader_track,        &leader_intern_site,    &leader_intern_string,
    &leader_unload_code,    &leader_primitives,   &leader_dispatch_begin, &leader_dispatch_end,
    &leader_detail_begin,   &leader_detail_end,   &leader_session_site,   &leader_session_string,
    &leader_begin_function, &leader_signal_track, &FunctionCalls::open,   &FunctionCalls::activate,
    &FunctionCalls::begin,  &FunctionCalls::end,  &FunctionCalls::close,  &leader_report_memory,
    &leader_module_loaded,  &set_track_name,
};

// Handlers for pthread_atfork. Lock order: the primitives' lock before the recorder's.
inline void before_fork() noexcept {
  lock_primitives_for_fork();
  fork_prepare();
}
inline void after_fork_in_parent() noexcept {
  fork_parent();
  unlock_primitives_after_fork();
}
inline void after_fork_in_child() noexcept {
  if (Track* track = thread_block()->track)
    close_track_detail(track);  // the parent's counters count the parent
  fork_child();
  reset_primitives_in_child();
}

// Initialises a State before other libraries can see it elected.
inline void prepare_to_lead(State* s) noexcept {
  s->functions = &leader_functions;
  s->pid = static_cast<uint64_t>(::getpid());
  const ForcedClock forced = forced_clock();
  s->slow_clock = !forced.slow && tick_counter_usable() ? 0 : 1;
  s->simulated_counter_hz = forced.simulated_hz;
}

// Work of the elected leader only, once: pins its library in memory, and with it the handlers that
// it installs for thread exit and fork.
inline void lead(State* s, const char* path) noexcept {
  pin_object(path);
  if (s->exit_key_made == 0 && pthread_key_create(&s->exit_key, &leader_thread_exit) == 0)
    s->exit_key_made = 1;
  if (s->hooks_installed == 0 &&
      pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child) == 0)
    s->hooks_installed = 1;
}

// Makes all libraries join that were loaded earlier and found no leader.
inline void let_others_join(State* leader, const discovery::Found& found) noexcept {
  for (int i = 0; i < found.count; ++i) {
    const State* other = found.states[i];
    if (other->join != nullptr) other->join(leader);
  }
}

// Whether any library found has a leader.
inline bool is_led(const discovery::Found& found) noexcept {
  for (int i = 0; i < found.count; ++i)
    if (load_acquire(&found.states[i]->leader) != nullptr) return true;
  return false;
}

// Joins the process's recorder, and leads it if there is no leader. Idempotent. Called by the
// loader before the library's other constructors, in either order with join_or_wait.
inline void attach() noexcept {
  if (own_module.state != nullptr) return;
  const discovery::Found found = discovery::scan_libraries(&own_state);
  State* leader = elected_leader(found);
  if (leader == nullptr) {
    // Election by one CAS on the `leader` word of the first library found. If there is a leader
    // that we cannot follow, we elect ourselves on our own word.
    State* ballot = found.count > 0 && !is_led(found) ? found.states[0] : &own_state;
    State* expected = nullptr;
    intptr_t offset = 0;
    if (const char* forced = std::getenv("FASTPROF_TLS"))
      own_state.tls_forced_dynamic = std::strcmp(forced, "dynamic") == 0 ? 1 : 0;
    const bool is_static =
        platform::probe_thread_block(offset) && own_state.tls_forced_dynamic == 0;
    provide_thread_block(&own_state, is_static, offset);
    prepare_to_lead(&own_state);
    if (__atomic_compare_exchange_n(&ballot->leader, &expected, &own_state, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
      leader = &own_state;
      lead(leader, found.self_path);
    } else {
      leader = expected;
    }
  }
  join(leader, found);
  if (leader == &own_state) let_others_join(leader, found);
}

// Paths of loaded libraries that use another recorder: built with another ABI major, or led by
// another State. Empty path: the executable. For diagnosis. Any thread.
inline std::vector<std::string> libraries_of_other_abi() {
  const discovery::Found found = discovery::scan_libraries(&own_state);
  std::vector<std::string> paths;
  for (int i = 0; i < found.other_count; ++i)
    paths.emplace_back(found.other_paths[i] != nullptr ? found.other_paths[i] : "");
  for (int i = 0; i < found.count; ++i) {
    const State* leader = load_acquire(&found.states[i]->leader);
    if (leader == nullptr && found.states[i]->join == nullptr) continue;  // no library uses it
    if (leader != state()) paths.emplace_back(found.paths[i] != nullptr ? found.paths[i] : "");
  }
  return paths;
}

FASTPROF_NAMESPACE_END

#if !FASTPROF_DECLARED_ONLY
extern "C" {
__attribute__((used, visibility("hidden"))) FASTPROF_OUTLINE void fastprof_v1_attach() noexcept {
  fastprof::attach();
}
}
#endif

FASTPROF_ON_LOAD(fastprof_v1_constructor, fastprof_v1_attach)
