// SPDX-License-Identifier: Apache-2.0
// Joining the process's recorder: what every annotated library does in its constructor. If no
// library can lead yet, it waits for one. Libraries that can lead include leader/attach.hpp too.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/platform/load_hooks.hpp"
#include "fastprof/platform/shared_state.hpp"
#include "fastprof/recorder/state/abi_minor.hpp"
#include "fastprof/recorder/state/lock.hpp"
#include "fastprof/recorder/state/own_state.hpp"
#include "fastprof/recorder/state/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN

// Discovery: finds the process's annotated libraries by their States (platform/shared_state.hpp).

namespace discovery {

static_assert(sizeof own_state.magic == kMagicBytes, "a State is recognised by its magic");

// Walks the loaded objects. `self`: an address in the object whose path is wanted.
inline Found scan_libraries(const void* self) noexcept {
  return scan_objects(self, {own_state.magic, alignof(State)});
}

}  // namespace discovery

// This library's entry in the leader's list of modules; `state` is null before it has joined.
inline Module own_module{};

// Makes this library's thread block the one that all libraries use. Called before the State is
// elected, or under its lock.
inline void provide_thread_block(State* s, bool is_static, intptr_t offset) noexcept {
  ThreadBlock* (*find)() = &own_thread_block;
  store_release(&s->thread_block, find);  // partner: dynamic_thread_block()
  s->tls_offset = offset;
  s->tls_static = is_static ? 1 : 0;
}

// Publishes the leader's block to a module. Its threads may be recording: they read the offset only
// after tls_static (release; partner: acquire in thread_block()).
inline void show_thread_block(intptr_t* tls_offset, uint32_t* tls_static,
                              const State* leader) noexcept {
  store_relaxed(tls_offset, leader->tls_offset);
  store_release(tls_static, leader->tls_static);
}

// Makes this library use `leader`. Idempotent. Runs under the loader's lock, in a constructor of
// this library or of the leader's.
FASTPROF_COLD inline void join(State* leader, const discovery::Found& found) noexcept {
  if (own_module.state != nullptr) return;
  own_module.state = &own_state;
  own_module.first = found.self_first;
  own_module.last = found.self_last;
  own_module.tls_offset = &g_recorder.tls_offset;
  own_module.tls_static = &g_recorder.tls_static;
  store_release(&own_state.leader, leader);
  bool provides = false;
  {
    ScopedLock hold(leader->lock);
    // Offer our block if it has a fixed offset and no thread has used the leader's dynamic one.
    intptr_t offset = 0;
    if (leader != &own_state && leader->tls_static == 0 && leader->recorded_once == 0 &&
        leader->tls_forced_dynamic == 0 && platform::probe_thread_block(offset)) {
      provide_thread_block(leader, true, offset);
      for (Module* module = leader->modules; module != nullptr; module = module->next)
        show_thread_block(module->tls_offset, module->tls_static, leader);
      provides = true;
    }
    show_thread_block(&g_recorder.tls_offset, &g_recorder.tls_static, leader);
    // The node id may have been set in this library before there was a leader.
    if (load_relaxed(&leader->node_id) < 0)
      store_relaxed(&leader->node_id, load_relaxed(&own_state.node_id));
    own_module.loaded_ticks = ticks(leader);
    own_module.next = leader->modules;
    leader->modules = &own_module;
  }
  if (provides) pin_object(found.self_path);  // without the lock: dlopen takes the loader's
  store_release(&g_recorder.state, leader);
  leader->functions->module_loaded(leader, &own_module);
}

// The State that the libraries found already use, if we can follow it; else null.
inline State* elected_leader(const discovery::Found& found) noexcept {
  for (int i = 0; i < found.count; ++i) {
    State* leader = load_acquire(&found.states[i]->leader);
    if (leader != nullptr && can_follow(*leader)) return leader;
  }
  return nullptr;
}

// State::join: makes this library use a leader that was loaded after it.
inline void join_later(State* leader) noexcept {
  if (can_follow(*leader)) join(leader, discovery::scan_libraries(&own_state));
}

// Joins the leader, or waits for one. Nothing can record before, so nothing is lost.
inline void join_or_wait() noexcept {
  if (own_module.state != nullptr) return;
  own_state.join = &join_later;  // before the scan: a leader elected meanwhile finds it
  const discovery::Found found = discovery::scan_libraries(&own_state);
  if (State* leader = elected_leader(found)) join(leader, found);
}

// Leaves the recorder: called when the library is unloaded or the process ends.
inline void leave() noexcept {
  State* s = state();
  if (load_acquire(&s->thread_block) != &own_thread_block) platform::drop_thread_blocks();
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

FASTPROF_ON_LOAD_AND_UNLOAD(fastprof_v1_joins, fastprof_v1_join, fastprof_v1_leave)
