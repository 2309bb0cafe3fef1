// SPDX-License-Identifier: Apache-2.0
// Joining the process's recorder: what every annotated library does when it is loaded, whether or
// not anything in the process can lead yet. Whoever can lead includes process/attach.hpp as well.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/abi_minor.hpp"
#include "fastprof/recorder/discovery.hpp"
#include "fastprof/recorder/lock.hpp"
#include "fastprof/recorder/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN

// This library in the leader's list; `state` is null until it has joined.
inline Module own_module{};

// Keeps the object at `path` loaded from here on; the executable (empty path) cannot go away.
inline void pin_object(const char* path) noexcept {
  if (path != nullptr && path[0] != '\0')
    (void)::dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

// Whether this library's thread block lies at one offset in every thread.
inline bool probe_tls(intptr_t& offset) noexcept {
  uintptr_t out[3];
  fastprof_v1_tls_probe(out);
  offset = static_cast<intptr_t>(out[1]);
  return out[0] == out[1] || out[2] == out[1];
}

inline void provide_thread_block(State* s, bool is_static, intptr_t offset) noexcept {
  s->thread_block = &own_thread_block;
  s->tls_offset = offset;
  s->tls_static = is_static ? 1 : 0;
}

// Threads may be inside annotated functions of the library: `tls_static` is what makes them read
// the offset (partner: acquire in thread_block()).
inline void show_thread_block(intptr_t* tls_offset, uint32_t* tls_static,
                              const State* leader) noexcept {
  store_relaxed(tls_offset, leader->tls_offset);
  store_release(tls_static, leader->tls_static);
}

// Uses `leader` from here on. Idempotent. Run under the loader's lock, by a constructor of this
// library or of the leader's.
FASTPROF_COLD inline void join(State* leader, const discovery::Found& found) noexcept {
  if (own_module.state != nullptr) return;
  own_module.state = &own_state;
  own_module.first = found.self_first;
  own_module.last = found.self_last;
  own_module.tls_offset = &g_elected.tls_offset;
  own_module.tls_static = &g_elected.tls_static;
  store_release(&own_state.leader, leader);
  bool provides = false;
  {
    ScopedLock hold(leader->lock);
    // A block at a fixed offset is worth having while nobody has recorded through the dynamic one.
    intptr_t offset = 0;
    if (leader != &own_state && leader->tls_static == 0 && leader->recorded_once == 0 &&
        leader->tls_forced_dynamic == 0 && probe_tls(offset)) {
      provide_thread_block(leader, true, offset);
      for (Module* module = leader->modules; module != nullptr; module = module->next)
        show_thread_block(module->tls_offset, module->tls_static, leader);
      provides = true;
    }
    show_thread_block(&g_elected.tls_offset, &g_elected.tls_static, leader);
    // Set here before anybody led.
    if (load_relaxed(&leader->node_id) < 0)
      store_relaxed(&leader->node_id, load_relaxed(&own_state.node_id));
    own_module.loaded_ticks = ticks(leader);
    own_module.next = leader->modules;
    leader->modules = &own_module;
  }
  if (provides) pin_object(found.self_path);  // not under the lock: it takes the loader's
  store_release(&g_elected.state, leader);
}

// The State that those found use already, if we can follow it; null while there is none.
inline State* elected_leader(const discovery::Found& found) noexcept {
  for (int i = 0; i < found.count; ++i) {
    State* leader = load_acquire(&found.states[i]->leader);
    if (leader != nullptr && can_follow(*leader)) return leader;
  }
  return nullptr;
}

// What a leader that is loaded later calls for each library that waits: State::join.
inline void join_later(State* leader) noexcept {
  if (can_follow(*leader)) join(leader, discovery::look(&own_state));
}

// Joins who leads, or waits for who will: until then nothing can record, so nothing is lost.
inline void join_or_wait() noexcept {
  if (own_module.state != nullptr) return;
  own_state.join = &join_later;  // before the look: who is elected meanwhile finds it
  const discovery::Found found = discovery::look(&own_state);
  if (State* leader = elected_leader(found)) join(leader, found);
}

// Leaves: the library is being unloaded, or the process ends.
inline void leave() noexcept {
  State* s = state();
  if (own_module.state == nullptr || s == &own_state) return;
  s->functions->unload(s, own_module.first, own_module.last);
}

FASTPROF_NAMESPACE_END

extern "C" {
__attribute__((used, visibility("hidden"))) inline void fastprof_v1_join() noexcept {
  fastprof::join_or_wait();
}
__attribute__((used, visibility("hidden"))) inline void fastprof_v1_leave() noexcept {
  fastprof::leave();
}
}

// One constructor and one destructor a library, however many translation units include this: first
// to run, last to go.
__asm__(
    ".ifndef fastprof_v1_joins\n"
    ".pushsection .init_array.00101,\"awG\",%init_array,fastprof_v1_joins,comdat\n"
    ".balign 8\n"
    ".weak fastprof_v1_joins\n"
    ".hidden fastprof_v1_joins\n"
    "fastprof_v1_joins:\n"
    ".quad fastprof_v1_join\n"
    ".popsection\n"
    ".pushsection .fini_array.00101,\"awG\",%fini_array,fastprof_v1_joins,comdat\n"
    ".balign 8\n"
    ".quad fastprof_v1_leave\n"
    ".popsection\n"
    ".endif\n");
