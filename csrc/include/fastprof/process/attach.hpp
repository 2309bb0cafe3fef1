// SPDX-License-Identifier: Apache-2.0
// Attach: what every annotated library does when it is loaded, and what the elected leader provides
// to all of them.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/fork.hpp"
#include "fastprof/primitives/range_dispatch.hpp"
#include "fastprof/primitives/thread_primitives.hpp"
#include "fastprof/process/begin_function.hpp"
#include "fastprof/process/thread_detail.hpp"
#include "fastprof/recorder/abi_layout.hpp"
#include "fastprof/recorder/discovery.hpp"
#include "fastprof/recorder/fork.hpp"
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
    &leader_reserve_slow,   &leader_track,      &leader_intern_site,    &leader_intern_string,
    &leader_unload_code,    &leader_primitives, &leader_dispatch_begin, &leader_dispatch_end,
    &leader_detail_begin,   &leader_detail_end, &leader_session_site,   &leader_session_string,
#if FASTPROF_ABI_MINOR >= 1
    &leader_begin_function,
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

// Keeps the object at `path` loaded from here on; the executable (empty path) cannot go away.
inline void pin_object(const char* path) noexcept {
  if (path != nullptr && path[0] != '\0')
    (void)::dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
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

// Whether this library's thread block lies at one offset in every thread.
inline bool probe_tls(intptr_t& offset) noexcept {
  uintptr_t out[3];
  fastprof_v1_tls_probe(out);
  offset = static_cast<intptr_t>(out[1]);
  if (const char* forced = std::getenv("FASTPROF_TLS"))
    if (std::strcmp(forced, "dynamic") == 0) return false;
  return out[0] == out[1] || out[2] == out[1];
}

inline void provide_thread_block(State* s, bool is_static, intptr_t offset) noexcept {
  s->thread_block = &own_thread_block;
  s->tls_offset = offset;
  s->tls_static = is_static ? 1 : 0;
}

// Where the thread block lies, as a library remembers it. Its threads read it while another loads.
inline void publish_tls(intptr_t* offset, uint32_t* is_static, intptr_t new_offset,
                        uint32_t new_static) noexcept {
  store_relaxed(offset, new_offset);
  store_release(is_static, new_static);  // partner: acquire in thread_block()
}

inline Module own_module{};

// Joins the process's recorder. Idempotent. Run by the loader before the library's other
// constructors.
inline void attach() noexcept {
  if (own_module.state != nullptr) return;
  const discovery::Found found = discovery::look(&own_state);
  own_module.state = &own_state;
  own_module.first = found.self_first;
  own_module.last = found.self_last;
  own_module.tls_offset = &g_elected.tls_offset;
  own_module.tls_static = &g_elected.tls_static;
  // Whoever was elected before stays; else the first noted object is the ballot, and one CAS on its
  // word decides. Where somebody leads whom we cannot follow, we vote for ourselves.
  State* leader = nullptr;
  State* ballot = found.count > 0 ? found.states[0] : &own_state;
  for (int i = 0; i < found.count && leader == nullptr; ++i) {
    leader = load_acquire(&found.states[i]->leader);
    if (leader == nullptr || can_follow(*leader)) continue;
    leader = nullptr;
    ballot = &own_state;
  }
  if (leader == nullptr) {
    State* expected = nullptr;
    intptr_t offset = 0;
    const bool is_static = probe_tls(offset);
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
  store_release(&own_state.leader, leader);
  bool provides = false;
  {
    ScopedLock hold(leader->lock);
    // A block at a fixed offset is worth having while nobody has recorded through the dynamic one.
    if (leader != &own_state && leader->tls_static == 0 && leader->recorded_once == 0) {
      intptr_t offset = 0;
      if (probe_tls(offset)) {
        provide_thread_block(leader, true, offset);
        for (Module* module = leader->modules; module != nullptr; module = module->next) {
          publish_tls(module->tls_offset, module->tls_static, offset, 1);
        }
        provides = true;
      }
    }
    publish_tls(&g_elected.tls_offset, &g_elected.tls_static, leader->tls_offset,
                leader->tls_static);
    own_module.loaded_ticks = ticks(leader);
    own_module.next = leader->modules;
    leader->modules = &own_module;
  }
  if (provides) pin_object(found.self_path);  // not under the lock: it takes the loader's
  store_release(&g_elected.state, leader);
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

// Leaves it: the library is being unloaded, or the process ends.
inline void detach() noexcept {
  State* s = state();
  if (own_module.state == nullptr || s == &own_state || s->functions == nullptr) return;
  s->functions->unload(s, own_module.first, own_module.last);
}

FASTPROF_NAMESPACE_END

extern "C" {
__attribute__((used, visibility("hidden"))) inline void fastprof_v1_attach() noexcept {
  fastprof::attach();
}
__attribute__((used, visibility("hidden"))) inline void fastprof_v1_detach() noexcept {
  fastprof::detach();
}
}

// One constructor and one destructor a library, however many translation units include this: first
// to run, last to go.
__asm__(
    ".ifndef fastprof_v1_constructor\n"
    ".pushsection .init_array.00101,\"awG\",%init_array,fastprof_v1_constructor,comdat\n"
    ".balign 8\n"
    ".weak fastprof_v1_constructor\n"
    ".hidden fastprof_v1_constructor\n"
    "fastprof_v1_constructor:\n"
    ".quad fastprof_v1_attach\n"
    ".popsection\n"
    ".pushsection .fini_array.00101,\"awG\",%fini_array,fastprof_v1_constructor,comdat\n"
    ".balign 8\n"
    ".quad fastprof_v1_detach\n"
    ".popsection\n"
    ".endif\n");
