// SPDX-License-Identifier: Apache-2.0
// State: the one record of truth a process has. Every annotated library carries one; discovery
// (process/attach.hpp) elects which of them all libraries use (join.hpp). Constant-initialised,
// trivially destructible, never freed.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/base/drop_cause.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/recorder/chunk.hpp"
#include "fastprof/recorder/clock.hpp"

FASTPROF_NAMESPACE_BEGIN

// Bits of State::mask beside the categories.
namespace mask_bit {
constexpr uint32_t local = 1u << 31;  // some thread-local session or mask exists: ask the thread
constexpr uint32_t dynamic =
    1u << 30;  // no static TLS, or the slow clock: everything goes the cold way
constexpr uint32_t callbacks = 1u << 29;  // some RecordFunction callback is registered: dispatch it
constexpr uint32_t detail = 1u << 28;  // some session wants perf counters or stacks with its ranges
constexpr uint32_t special = local | dynamic | callbacks | detail;
}  // namespace mask_bit

// In a mask given to reserve: the record completes an event that is counted elsewhere. Its loss is
// not the event's.
constexpr uint32_t kEndRecord = 1u << 31;

namespace thread_flag {
constexpr uint32_t busy =
    1;  // inside refill, registration or the late path: ranges begun now are reentrant
constexpr uint32_t retired = 2;  // the thread's storage was handed back; it may register again
constexpr uint32_t in_signal = 4;
}  // namespace thread_flag

// The hot thread-local words. 32 bytes, in the leader's thread-local storage.
struct ThreadBlock {
  uintptr_t cursor;  // next slot; written by its thread, read by the drain (relaxed: the slot's
                     // begin carries the order)
  uintptr_t limit;   // end of the current chunk
  uint32_t mask;     // categories this thread records for thread-local sessions; own thread only
  uint32_t flags;    // thread_flag; own thread only
  Track* track;      // null until the first record
};
static_assert(sizeof(ThreadBlock) == 32, "the thread block is ABI");

struct ThreadPrimitives;  // primitives/thread_primitives.hpp: callbacks and debug info of one
                          // thread
struct InternTable;       // recorder/name_table.hpp
struct InternEntry;
struct NameBlock;
struct State;
class RecordFunction;  // primitives/record_function.hpp

// One thread's records. From State's arena; reused after the thread is dead and its chunks are
// free.
struct Track {
  uint32_t id;  // unique over the process's life, from 1
  uint32_t pid;
  uint32_t tid;
  uint32_t alive;      // 0 after retirement (State::lock)
  ThreadBlock* block;  // null after retirement, and for records made after it (State::lock)
  Chunk* oldest;       // list by sequence (State::lock)
  Chunk* newest;       // the current one, if any
  uint64_t next_sequence;
  ThreadPrimitives* primitives;  // own thread only
  Track* next;                   // list of all tracks: prepended by CAS, removed under State::lock
  uint32_t is_signal;            // the track of a thread's signal handlers
  uint32_t
      names_in_use;  // its thread looks session names up or writes them down: NameUse (relaxed)
  Track* signal;     // that track, once a signal_scope ran (own thread)
  uintptr_t suspended_limit;   // of a signal track between signals (own thread)
  uintptr_t suspended_cursor;  // of this track while its thread runs a signal scope, else 0
                               // (release; partner: chunk_written_end)
  uint32_t
      unpinned;  // chunks of its list that no session pins and that are not current (State::lock)
  uint64_t local_sessions;   // session slots this thread belongs to (own thread)
  uint64_t local_newest_id;  // of those, sessions with a larger id have reused the slot: not this
                             // thread's (own thread)
  void* counters;            // detail sources: perf counter group of this thread
  void* extension;           // for the Python layer
  uint32_t name_length;
  uint32_t reserved1;
  char name[64];  // set by set_thread_name or read from the kernel at registration
  uint64_t reserved[4];
};

enum class OverflowPolicy : uint8_t { drop_newest = 0, overwrite_oldest = 1, spill_to_file = 2 };

// A live session as the recorder sees it. Fields change under State::lock; counters are relaxed
// atomics.
struct SessionSlot {
  uint64_t id;      // 0: free
  uint64_t t0, t1;  // ticks; t1 is UINT64_MAX while live
  uint32_t mask;
  uint32_t pid;  // the process that started it: a forked child must not write its files
  uint8_t live;
  uint8_t local;  // thread-local: reads only the segments of threads it was propagated into
  OverflowPolicy policy;
  uint8_t wants_detail;
  uint8_t follows_fork;  // goes on, empty, in a forked child
  uint8_t wants_inputs;  // records the inputs of RecordFunctions
  uint8_t spill_state;   // of recorder/spill_gate.hpp
  uint8_t spill_pass;    // incremented when a pass of the spill thread begins (odd) and ends (even)
  uint64_t max_chunks;
  uint64_t pinned_chunks;  // written under State::lock; the spill thread reads it without (relaxed)
  uint64_t dropped[kMaxDropCauses];  // relaxed atomics
  uint64_t reserved[5];              // 0 from each start on
};

// The map from ticks to time, of all sessions: appended under State::lock, thinned when full.
constexpr unsigned kMaxKnots = 2048;
struct KnotList {
  uint32_t count;
  ClockKnot knots[kMaxKnots];
};

// Names made at run time. See recorder/name_table.hpp. Changed under State::lock.
struct NameStore {
  InternTable* table;   // acquire; partner: release when a table is published
  InternEntry* listed;  // entries whose prototype is loaded, newest first
  uint64_t bytes;       // of entries
  NameBlock* blocks;    // memory of a store that can be freed
  char* next;           // bump allocation in the newest block
  char* end;
};

// An annotated library or executable, while it is loaded.
struct Module {
  uintptr_t first, last;  // addresses of its segments
  Module* next;
  struct State* state;    // its own State (== leader's for one of them)
  intptr_t* tls_offset;   // its cached copy of State::tls_offset
  uint32_t* tls_static;   // and of tls_static
  uint64_t loaded_ticks;  // when it attached: older records do not refer to it
};

// Cold functions of the leader, which is pinned. Pointers are only appended; ask leader_has()
// before the use of those that came with a minor.
struct RecorderFunctions {
  // Makes room for `units` contiguous units, moves the cursor, returns the first; null: counted as
  // dropped.
  Slot* (*reserve_slow)(State*, ThreadBlock*, uint32_t units, uint32_t mask);
  // This thread's track, registered if need be; null when that is not possible any more.
  Track* (*track)(State*, ThreadBlock*);
  // The interned Site with this name and otherwise the fields of `like`; `like` itself when the
  // table is full.
  const Site* (*intern_site)(State*, const Site* like, const char* name, size_t length);
  // An interned copy of a string, for string arguments; "<too many strings>" when the table is
  // full.
  const char* (*intern_string)(State*, const char* text, size_t length);
  // Rewrites live records and interned sites that refer to [first, last).
  void (*unload)(State*, uintptr_t first, uintptr_t last);
  // This thread's primitives (callbacks, debug info), made on first use; null at the very end of a
  // thread.
  ThreadPrimitives* (*primitives)(State*, ThreadBlock*);
  // A range of `site` while callbacks are registered: runs their starts and records it; the token
  // goes to dispatch_end.
  void* (*dispatch_begin)(State*, const Site* site, const uint64_t* args);
  void (*dispatch_end)(State*, void* token);
  // Encodes perf counters and stacks behind a slot, DetailHeader first: words used, a multiple of
  // 3, at most `capacity`; and their end values, on the thread that began.
  size_t (*detail_begin)(State*, ThreadBlock*, uint64_t* words, size_t capacity,
                         const void* caller);
  void (*detail_end)(State*, ThreadBlock*, uint64_t* words);
  // As intern_site and intern_string, for as long as sessions and open records need them; the
  // caller holds a NameUse.
  const Site* (*session_site)(State*, const Site* like, const char* name, size_t length);
  const char* (*session_string)(State*, const char* text, size_t length);
  // -- since abi_minor 1
  // Begins a range of `site` with what a RecordFunction was given beside its name: a
  // FunctionDetails (primitives/function_details.hpp). Returns the slot, null when nothing is
  // recorded, and stores what OpenRange::begin is to be.
  Slot* (*begin_function)(State*, const Site* site, const void* details, uint64_t* begin);
  // -- since abi_minor 2
  // Makes the track of the signal handlers of the thread that `block` is of; null when the arena is
  // exhausted.
  Track* (*signal_track)(State*, ThreadBlock*, Track* interrupted);
  // RecordFunction's own: `open` makes one in `storage` and begins it, null when nothing listens;
  // `activate` chooses what listens; `start` calls the start callbacks and begins the range; `end`
  // ends both; `close` is the destructor of an active one.
  RecordFunction* (*open_function)(State*, void* storage, const Site*);
  void (*activate_function)(State*, RecordFunction*, RecordScope, uint32_t category);
  void (*start_function)(State*, RecordFunction*, const Site* site_or_null);
  void (*end_function)(RecordFunction*);
  void (*close_function)(RecordFunction*);
  // Tells the profiler in the thread's PROFILER_STATE slot, if there is one, of an allocation or,
  // with `out_of_memory`, of a request that was not met.
  void (*report_memory)(State*, void* ptr, int64_t bytes, uint64_t total_allocated_bytes,
                        uint64_t total_reserved_bytes, uint32_t device, bool out_of_memory);
};

struct State {
  // -- first 64 bytes: frozen per ABI major
  char magic[16] = {'f', 'a', 's', 't', 'p', 'r', 'o', 'f', 1, 's', 't', 'a', 't', 'e', 13, 10};
  uint16_t abi_major = FASTPROF_ABI_MAJOR;
  uint16_t abi_minor = FASTPROF_ABI_MINOR;
  uint32_t size_bytes = sizeof(State);
  State* leader = nullptr;  // elected State, null before (CAS; partner: acquire load in attach)
  uint32_t mask = 0;        // what all threads record (relaxed; start and stop add a membarrier)
  uint32_t real_mask = 0;   // the same when `mask` shows only mask_bit::dynamic
  intptr_t tls_offset = 0;  // of the ThreadBlock from the thread pointer, when tls_static
  ThreadBlock* (*thread_block)() = nullptr;      // the provider's, in any case
  const RecorderFunctions* functions = nullptr;  // the leader's
  // -- appended only
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // tracks, chunks, sessions, modules, names.
                                                     // Held shortly; never across user code
  pthread_mutex_t drain_lock =
      PTHREAD_MUTEX_INITIALIZER;  // following site addresses outside `lock`; taken before it;
                                  // excludes unload
  Track* tracks = nullptr;        // all tracks (lock)
  Track* free_tracks = nullptr;
  Chunk* free_chunks = nullptr;           // LIFO: the warmest first
  Slab* slabs = nullptr;                  // every slab ever mapped and not trimmed
  Slab* carving = nullptr;                // the one that new chunks come from
  Slab* ready = nullptr;                  // pre-faulted and not carved yet
  BlankSlabPlace* blank_slabs = nullptr;  // mapped, without pages (lock)
  uint64_t chunk_count = 0;               // carved: free + in tracks
  uint64_t free_count = 0;
  uint64_t ready_count = 0;    // slabs
  uint64_t max_chunks = 0;     // of all live sessions together
  uint64_t session_epoch = 0;  // changes at each start and stop (relaxed)
  uint64_t unload_epoch = 0;   // changes at each unload: caches by address are stale (drain_lock)
  uint64_t next_session_id = 0;
  SessionSlot sessions[kMaxSessions]{};
  uint64_t session_bits = 0;  // live sessions (lock)
  uint64_t keep_bits = 0;     // those of them that pin chunks; the rest overwrite
  uint64_t local_bits = 0;    // those of them that are thread-local
  uint32_t extra_mask = 0;    // mask bits set by set_mask_bit
  uint32_t next_track_id = 0;
  uint32_t tls_forced_dynamic = 0;  // FASTPROF_TLS=dynamic, since abi_minor 2
  uint32_t fork_count = 0;          // incremented in each child
  uint32_t tls_static = 0;
  uint32_t recorded_once = 0;  // some thread registered: the thread block's provider is fixed
  pthread_key_t exit_key = 0;
  uint32_t exit_key_made = 0;
  uint32_t hooks_installed = 0;      // pthread_atfork
  uint32_t slow_clock = 0;           // the tick counter is not trustworthy: strict clock_gettime
  uint32_t membarrier = 0;           // 0 unknown, 1 registered, 2 not available
  uint32_t usable_cpus = 0;          // 0 unknown
  uint32_t prefault_running = 0;     // helper thread alive (lock)
  uint32_t prefault_signal = 0;      // futex word
  int64_t node_id = -1;              // default node id, -1 for none
  uint64_t callbacks_users = 0;      // non-empty callback sets (relaxed RMW)
  uint64_t callbacks_version = 0;    // of global ones (release; partner: acquire in dispatch)
  void* global_callbacks = nullptr;  // primitives/
  Module* modules = nullptr;
  NameStore lasting_names{};  // as long as the process (lock; readers take none)
  NameStore session_names{};  // until reclaim_names (lock; readers hold a NameUse)
  uint64_t name_epoch = 0;    // changes at each reclaim of session names (relaxed, under a NameUse)
  uint64_t names_reclaimed_ticks = 0;            // of the last one: no session lived then (relaxed)
  uint64_t max_name_bytes = uint64_t{64} << 20;  // bound of session_names (lock)
  uint64_t max_name_length = 64 * 1024;          // of one session name; longer ones are cut
  char* arena_next = nullptr;                    // bump allocation (lock)
  char* arena_end = nullptr;
  KnotList* knots = nullptr;
  int64_t unix_offset_ns = 0;       // Unix minus monotonic, fixed at the first session
  uint64_t pending_knot_ticks = 0;  // a refill later than this takes a knot
  uint64_t late_records = 0;        // relaxed
  uint64_t last_slow_ticks = 0;     // acq_rel RMW in slow_ticks
  uint64_t pid = 0;
  uint64_t default_max_bytes = 0;  // of a session; with the next: read once (session_control.hpp)
  uint64_t cgroup_cpus_x100 = 0;
  uint64_t detail_users = 0;      // sessions that want details (lock)
  uint64_t detail_options[16]{};  // a DetailOptions, valid while mask_bit::detail is set
  uint64_t input_users = 0;  // sessions that want inputs of RecordFunctions: written under `lock`,
                             // read without it (relaxed)
  uint64_t simulated_counter_hz = 0;  // FASTPROF_CLOCK=<Hz>: slow_ticks rounds down to its steps
  uint32_t spill_requests = 0;        // futex word: spill threads are to work (release)
  uint32_t spill_progress = 0;        // futex word: room was made, or a pass ended (release)
  // -- since abi_minor 2
  // Of a library that found nobody to lead: makes it use `leader`. Called under the loader's lock
  // by a leader that is loaded later.
  void (*join)(State* leader) = nullptr;
  uint64_t reserved[28]{};
};

FASTPROF_NAMESPACE_END
