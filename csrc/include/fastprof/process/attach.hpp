// SPDX-License-Identifier: Apache-2.0
// Attach: what a library does when it is loaded that can lead the process's recorder (it has a
// Session or observes), and what the elected leader provides to all others.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/fork.hpp"
#include "fastprof/primitives/memory_reporting.hpp"
#include "fastprof/primitives/range_dispatch.hpp"
#include "fastprof/primitives/set_node_id.hpp"
#include "fastprof/primitives/thread_primitives.hpp"
#include "fastprof/process/begin_function.hpp"
#include "fastprof/process/thread_detail.hpp"
#include "fastprof/recorder/abi_layout.hpp"
#include "fastprof/recorder/abi_minor.hpp"
#include "fastprof/recorder/clock_choice.hpp"
#include "fastprof/recorder/fork.hpp"
#include "fastprof/recorder/insert_names.hpp"
#include "fastprof/recorder/join.hpp"
#include "fastprof/recorder/reserve.hpp"
#include "fastprof/recorder/unload.hpp"

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

// At a thread's exit, after all its C++ thread_local destructors.
inline void leader_thread_exit(void* argument) noexcept {
  auto* block = static_cast<ThreadBlock*>(argument);
  State* s = state();
  if (Track* track = block->track) {
    close_track_detail(track);
    // Again when a destructor of a user's debug info made new ones.
    for (int round = 0; round < 4 && track->primitives != nullptr; ++round) {
      ThreadPrimitives* primitives = track->primitives;
      track->primitives = nullptr;
      delete_thread_primitives(primitives);
    }
    track->primitives = nullptr;
  }
  retire_track(s, block);
}

inline constexpr RecorderFunctions leader_functions = {
    &leader_reserve_slow,   &leader_track,         &leader_intern_site,      &leader_intern_string,
    &leader_unload_code,    &leader_primitives,    &leader_dispatch_begin,   &leader_dispatch_end,
    &leader_detail_begin,   &leader_detail_end,    &leader_session_site,     &leader_session_string,
    &leader_begin_function,
#if FASTPROF_ABI_MINOR >= 2
    &leader_signal_track,   &FunctionCalls::open,  &FunctionCalls::activate, &FunctionCalls::begin,
    &FunctionCalls::end,    &FunctionCalls::close, &leader_report_memory,
#endif
};

// Handlers of pthread_atfork. The primitives' lock comes before the recorder's.
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

// What a State needs before others may see it elected.
inline void prepare_to_lead(State* s) noexcept {
  s->functions = &leader_functions;
  s->pid = static_cast<uint64_t>(::getpid());
  const ForcedClock forced = forced_clock();
  s->slow_clock = !forced.slow && tick_counter_usable() ? 0 : 1;
  s->simulated_counter_hz = forced.simulated_hz;
}

// What only the elected one does, once: it stays loaded, and its handlers with it.
inline void lead(State* s, const char* path) noexcept {
  pin_object(path);
  if (s->exit_key_made == 0 && pthread_key_create(&s->exit_key, &leader_thread_exit) == 0)
    s->exit_key_made = 1;
  if (s->hooks_installed == 0 &&
      pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child) == 0)
    s->hooks_installed = 1;
}

// Every library that was loaded earlier and found nobody to lead joins now.
inline void let_others_join(State* leader, const discovery::Found& found) noexcept {
  for (int i = 0; i < found.count; ++i) {
    const State* other = found.states[i];
    if (other->join != nullptr) other->join(leader);
  }
}

// Whether any of those found follows somebody.
inline bool is_led(const discovery::Found& found) noexcept {
  for (int i = 0; i < found.count; ++i)
    if (load_acquire(&found.states[i]->leader) != nullptr) return true;
  return false;
}

// Joins the process's recorder, and leads it when nobody does. Idempotent. Run by the loader before
// the library's other constructors, beside join_or_wait: the order of the two does not matter.
inline void attach() noexcept {
  if (own_module.state != nullptr) return;
  const discovery::Found found = discovery::look(&own_state);
  State* leader = elected_leader(found);
  if (leader == nullptr) {
    // The first noted object is the ballot, and one CAS on its word decides. Where somebody leads
    // whom we cannot follow, we vote for ourselves.
    State* ballot = found.count > 0 && !is_led(found) ? found.states[0] : &own_state;
    State* expected = nullptr;
    intptr_t offset = 0;
    if (const char* forced = std::getenv("FASTPROF_TLS"))
      own_state.tls_forced_dynamic = std::strcmp(forced, "dynamic") == 0 ? 1 : 0;
    const bool is_static = probe_tls(offset) && own_state.tls_forced_dynamic == 0;
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

// Loaded objects that were built with another ABI of fastprof: what they record stays their own.
// Empty path: the executable. For diagnosis; any thread.
inline std::vector<std::string> libraries_of_other_abi() {
  const discovery::Found found = discovery::look(&own_state);
  std::vector<std::string> paths;
  for (int i = 0; i < found.other_count; ++i)
    paths.emplace_back(found.other_paths[i] != nullptr ? found.other_paths[i] : "");
  for (int i = 0; i < found.count; ++i)
    if (load_acquire(&found.states[i]->leader) != state())
      paths.emplace_back(found.paths[i] != nullptr ? found.paths[i] : "");
  return paths;
}

FASTPROF_NAMESPACE_END

extern "C" {
__attribute__((used, visibility("hidden"))) inline void fastprof_v1_attach() noexcept {
  fastprof::attach();
}
}

// One constructor a library, however many translation units include this: among the first to run.
__asm__(
    ".ifndef fastprof_v1_constructor\n"
    ".pushsection .init_array.00101,\"awG\",%init_array,fastprof_v1_constructor,comdat\n"
    ".balign 8\n"
    ".weak fastprof_v1_constructor\n"
    ".hidden fastprof_v1_constructor\n"
    "fastprof_v1_constructor:\n"
    ".quad fastprof_v1_attach\n"
    ".popsection\n"
    ".endif\n");
