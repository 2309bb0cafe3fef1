// SPDX-License-Identifier: Apache-2.0
// State: the one record of truth a process has. Every annotated library carries one; discovery (attach.hpp) elects
// which of them all libraries use. Constant-initialised, trivially destructible, never freed.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/recorder/chunk.hpp"
#include "fastprof/recorder/clock.hpp"

FASTPROF_NAMESPACE_BEGIN

// Bits of State::mask beside the categories.
namespace mask_bit {
constexpr uint32_t local = 1u << 31;      // some thread-local session or mask exists: ask the thread
constexpr uint32_t dynamic = 1u << 30;    // no static TLS, or the slow clock: everything goes the cold way
constexpr uint32_t callbacks = 1u << 29;  // some RecordFunction callback is registered: dispatch it
constexpr uint32_t detail = 1u << 28;     // some session wants perf counters or stacks with its ranges
constexpr uint32_t special = local | dynamic | callbacks | detail;
}  // namespace mask_bit

namespace thread_flag {
constexpr uint32_t busy = 1;     // inside refill, registration or the late path: ranges begun now are reentrant
constexpr uint32_t retired = 2;  // the thread's storage was handed back; it may register again
constexpr uint32_t in_signal = 4;
}  // namespace thread_flag

// The hot thread-local words. 32 bytes, in the leader's thread-local storage.
struct ThreadBlock {
  uintptr_t cursor;  // next slot; written by its thread, read by the drain (relaxed: the slot's begin carries the order)
  uintptr_t limit;   // end of the current chunk
  uint32_t mask;     // categories this thread records for thread-local sessions; own thread only
  uint32_t flags;    // thread_flag; own thread only
  Track* track;      // null until the first record
};
static_assert(sizeof(ThreadBlock) == 32, "the thread block is ABI");

struct ThreadPrimitives;  // primitives/thread_primitives.hpp: callbacks and debug info of one thread
struct InternTable;       // recorder/intern.hpp

// One thread's records. From State's arena; reused after the thread is dead and its chunks are free.
struct Track {
  uint32_t id;          // unique over the process's life, from 1
  uint32_t pid;
  uint32_t tid;
  uint32_t alive;       // 0 after retirement (State::lock)
  ThreadBlock* block;   // null after retirement (State::lock)
  Chunk* oldest;        // list by sequence (State::lock)
  Chunk* newest;        // the current one, if any
  uint64_t next_sequence;
  ThreadPrimitives* primitives;  // own thread only
  Track* next;          // list of all tracks: prepended by CAS, removed under State::lock
  uint32_t exits;       // times this thread re-registered during its exit
  uint32_t name_length;
  char name[64];        // set by set_thread_name or read from the kernel at registration
  uint64_t reserved[4];
};

enum class OverflowPolicy : uint8_t { drop_newest = 0, overwrite_oldest = 1, spill_to_file = 2 };

// A live session as the recorder sees it. Fields change under State::lock; counters are relaxed atomics.
struct SessionSlot {
  uint64_t id;            // 0: free
  uint64_t t0, t1;        // ticks; t1 is UINT64_MAX while live
  uint32_t mask;
  uint32_t pid;           // the process that started it: a forked child must not write its files
  uint8_t live;
  uint8_t local;          // thread-local: reads only the segments of threads it was propagated into
  OverflowPolicy policy;
  uint8_t wants_detail;
  uint64_t max_chunks;
  uint64_t pinned_chunks;
  uint64_t dropped[kNumDropCauses];
};

// An annotated library or executable, while it is loaded.
struct Module {
  uintptr_t first, last;  // addresses of its segments
  uint16_t abi_minor;
  Module* next;
  struct State* state;    // its own State (== leader's for one of them)
};

// Cold functions of the leader, which is pinned. Pointers are only appended; check State::abi_minor before use.
struct RecorderFunctions {
  // Makes room for `units` contiguous units and returns them, the cursor already moved; null: counted as dropped.
  Slot* (*reserve_slow)(State*, ThreadBlock*, uint32_t units, uint32_t mask);
  // Returns this thread's track, registering it; null when that is not possible.
  Track* (*track)(State*, ThreadBlock*);
  // The interned Site with this name and otherwise the fields of `like`; a shared site when the table is full.
  const Site* (*intern_site)(State*, const Site* like, const char* name, size_t length);
  // An interned copy of a string, for string arguments.
  const char* (*intern_string)(State*, const char* text, size_t length);
  // Rewrites live records that refer to [first, last), drops interned sites that copied from there.
  void (*unload)(State*, uintptr_t first, uintptr_t last);
  ThreadPrimitives* (*primitives)(State*, ThreadBlock*);
};

struct State {
  // -- first 64 bytes: frozen per ABI major
  char magic[16];
  uint16_t abi_major;
  uint16_t abi_minor;
  uint32_t size_bytes;
  State* leader;                         // elected State, null before (CAS; partner: acquire load in attach)
  uint32_t mask;                         // what all threads record (relaxed; start and stop add a membarrier)
  uint32_t real_mask;                    // the categories when mask shows only `dynamic`
  intptr_t tls_offset;                   // of the ThreadBlock from the thread pointer, when static
  ThreadBlock* (*thread_block)();        // the provider's, in any case
  const RecorderFunctions* functions;    // the leader's
  // -- appended only
  pthread_mutex_t lock;                  // tracks, chunks, sessions, modules, names. Held shortly; never across user code
  pthread_mutex_t drain_lock;            // resolving sites to names; taken before `lock`; excludes unload
  Track* tracks;                         // list head (acquire; partner: release CAS in registration)
  Track* free_tracks;
  Chunk* free_chunks;                    // LIFO: the warmest first
  Slab* slabs;
  Slab* carving;                         // the slab new chunks are carved from
  uint64_t chunk_count;                  // carved so far
  uint64_t free_count;
  uint64_t max_chunks;                   // of all sessions together
  uint64_t session_epoch;                // changes at each start and stop (relaxed)
  uint64_t next_session_id;
  SessionSlot sessions[kMaxSessions];
  uint64_t session_bits;                 // live sessions (lock)
  uint64_t keep_bits;                    // those of them that pin chunks (complete), the rest overwrite
  uint32_t next_track_id;
  uint32_t node_id;                      // default node id + 1, 0: none
  uint32_t forked;                       // incremented in each child
  uint32_t tls_static;
  pthread_key_t exit_key;
  uint32_t exit_key_made;
  uint32_t callbacks_mask_users;         // how many callback sets are non-empty
  uint64_t callbacks_version;            // changes with each global callback change (release; partner: acquire in dispatch)
  void* global_callbacks;                // primitives/callbacks.hpp
  Module* modules;
  InternTable* names;
  uint32_t prefault_running;             // helper thread alive (lock)
  uint32_t prefault_wanted;
  uint64_t clock_offset_ns;              // Unix minus monotonic, fixed at the first session
  uint32_t slow_clock;                   // the tick counter is not trustworthy: clock_gettime
  uint32_t membarrier;                   // 0 unknown, 1 registered, 2 not available
  uint64_t late_records;
  uint64_t next_correlation_id;
  uint64_t reserved[32];
};

FASTPROF_NAMESPACE_END
