// SPDX-License-Identifier: Apache-2.0
// Static assertions of the layouts that libraries of one ABI major share (abi_minor.hpp has the
// rules). A separate header that only leaders compile, because the assertions take long to compile.
#pragma once

#include <cstddef>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/state.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace abi_layout {

// Size of State's two mutexes, which the C library determines.
constexpr size_t kLocks = 2 * sizeof(pthread_mutex_t);
// What lies behind State::exit_key comes later where the C library's key has 8 bytes.
constexpr size_t kKey = kLocks + (sizeof(pthread_key_t) > 4 ? 8 : 0);

static_assert(sizeof(Slot) == 24 && offsetof(Slot, end) == 8 && offsetof(Slot, site) == 16,
              "the slot is ABI");
static_assert(sizeof(Site) == 80 && offsetof(Site, name) == 8 && offsetof(Site, arg_names) == 48 &&
                  offsetof(Site, flags) == 68,
              "the site is ABI");
static_assert(sizeof(Chunk) == 128 && offsetof(Chunk, open_ticks) == 32 &&
                  offsetof(Chunk, pins) == 56 && offsetof(Chunk, owner) == 80 &&
                  offsetof(Chunk, part_bytes) == 92 && offsetof(Chunk, next_shared) == 104,
              "the chunk header is ABI");
static_assert(sizeof(Slab) == 72 && offsetof(Slab, next) == 24, "the slab header is ABI");
static_assert(sizeof(ThreadBlock) == 32 && offsetof(ThreadBlock, mask) == 16 &&
                  offsetof(ThreadBlock, track) == 24,
              "the thread block is ABI");
static_assert(sizeof(Track) == 240 && offsetof(Track, block) == 16 &&
                  offsetof(Track, primitives) == 48 && offsetof(Track, name) == 144 &&
                  offsetof(Track, task_word) == 208 && offsetof(Track, reserved) == 232,
              "the track is ABI");
static_assert(sizeof(SessionSlot) == 224 && offsetof(SessionSlot, mask) == 24 &&
                  offsetof(SessionSlot, dropped) == 56 &&
                  offsetof(SessionSlot, tasks_since) == 192 &&
                  offsetof(SessionSlot, reserved) == 200,
              "the session slot is ABI");
static_assert(sizeof(Module) == 56 && sizeof(NameStore) == 48 && sizeof(ClockKnot) == 32 &&
                  sizeof(KnotList) == 8 + sizeof(ClockKnot) * kMaxKnots,
              "what State refers to is ABI");
static_assert(offsetof(RecorderFunctions, session_string) == 88 &&
                  offsetof(RecorderFunctions, begin_function) == 96 &&
                  offsetof(RecorderFunctions, signal_track) == 104 &&
                  offsetof(RecorderFunctions, report_memory) == 152 &&
                  offsetof(RecorderFunctions, module_loaded) == 160 &&
                  sizeof(RecorderFunctions) == 176,
              "the functions of the leader are ABI: append only");
static_assert(offsetof(State, leader) == 24 && offsetof(State, mask) == 32 &&
                  offsetof(State, thread_block) == 48 && offsetof(State, functions) == 56 &&
                  offsetof(State, lock) == 64,
              "the first 64 bytes of State are ABI");
static_assert(offsetof(State, tracks) == 64 + kLocks && offsetof(State, sessions) == 176 + kLocks &&
                  offsetof(State, session_bits) == 14512 + kLocks &&
                  offsetof(State, callbacks_users) == 14600 + kKey &&
                  offsetof(State, modules) == 14624 + kKey &&
                  offsetof(State, pid) == 14816 + kKey &&
                  offsetof(State, reserved) == 15032 + kKey && sizeof(State) == 15232 + kKey,
              "State is ABI");

}  // namespace abi_layout

FASTPROF_NAMESPACE_END
