// SPDX-License-Identifier: Apache-2.0
// State: the recorder's shared state. Every annotated library contains one; discovery
// (leader/attach.hpp) elects the one that all libraries of the process use (join.hpp).
// Constant-initialised, trivially destructible, never freed.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/base/drop_cause.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/recorder/state/chunk.hpp"
#include "fastprof/recorder/state/clock.hpp"

FASTPROF_NAMESPACE_BEGIN

// Bits of State::mask beside the categories. `special`: those that every range tests; all but
// `local` divert it from the fast path.
namespace mask_bit {
constexpr uint32_t local = 1u << 31;    // a thread-local session exists: test the thread's mask too
constexpr uint32_t dynamic = 1u << 30;  // no static TLS, or the slow clock: all take the slow path
constexpr uint32_t callbacks = 1u << 29;  // a RecordFunction callback is registered: dispatch it
constexpr uint32_t detail = 1u << 28;     // a session records perf counters or stacks of ranges
constexpr uint32_t special = local | dynamic | callbacks | detail;
}  // namespace mask_bit

// In a mask passed to reserve_slow: the record completes an event that was recorded when it began,
// so its loss is counted as a lost end, not as a lost event.
constexpr uint32_t kEndRecord = 1u << 31;

namespace thread_flag {
// In refill, registration or the late path: ranges begun meanwhile are reentrant.
constexpr uint32_t busy = 1;
constexpr uint32_t retired = 2;  // the thread's storage was handed back; it may register again
constexpr uint32_t in_signal = 4;
}  // namespace thread_flag

// The hot path's thread-local words: 32 bytes in the leader's thread-local storage.
struct ThreadBlock {
  uintptr_t cursor;  // next slot; written by its thread, read by the drain (relaxed: the slot's
                     // begin carries the order)
  uintptr_t limit;   // end of the current chunk
  uint32_t mask;     // categories its thread-local sessions record; own thread only
  uint32_t flags;    // thread_flag; own thread only
  Track* track;      // null until the first record
};
static_assert(sizeof(ThreadBlock) == 32, "the thread block is ABI");

struct ThreadPrimitives;  // primitives/thread_primitives.hpp: callbacks and debug info of one
                          // thread
struct InternTable;       // recorder/names/name_table.hpp
struct InternEntry;
struct NameBlock;
struct BackingFile;  // recorder/store/backing_file.hpp
struct State;
class RecordFunction;  // primitives/record_function.hpp

// The records of one thread. Allocated in State's arena; reused once the thread is dead and its
// chunks are free.
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
  // Nonzero while its thread uses session names: NameUse (relaxed).
  uint32_t names_in_use;
  Track* signal;               // track of this thread's signal_scope, null before (own thread)
  uintptr_t suspended_limit;   // of a signal track between signals (own thread)
  uintptr_t suspended_cursor;  // of this track while its thread runs a signal scope, else 0
                               // (release; partner: chunk_written_end)
  // Chunks of its list that no session pins and that are not current (State::lock).
  uint32_t unpinned;
  uint64_t local_sessions;   // session slots this thread belongs to (own thread)
  uint64_t local_newest_id;  // slots whose session has a larger id were reused: not this thread's
                             // (own thread)
  void* counters;            // ThreadDetail: perf counters and stack bounds of this thread
  void* extension;           // for the Python layer
  uint32_t name_length;
  uint32_t reserved1;
  char name[64];  // set by set_thread_name or read from the kernel at registration
  // The task that its thread runs, see task_switch.hpp (own thread). The site
  // is valid while State::name_epoch equals task_epoch; null before the thread's first task.
  uint64_t task_word;
  const Site* task_site;
  uint64_t task_epoch;
  uint64_t reserved[1];
};

enum class OverflowPolicy : uint8_t { drop_newest = 0, overwrite_oldest = 1, spill_to_file = 2 };

// The recorder's data of one session. Fields change under State::lock; counters are relaxed
// atomics.
struct SessionSlot {
  uint64_t id;      // 0: free
  uint64_t t0, t1;  // ticks; t1 is UINT64_MAX while live
  uint32_t mask;
  uint32_t pid;  // the process that started it; a forked child must not write its spill file
  uint8_t live;
  uint8_t local;  // thread-local: reads only records inside its membership records
  OverflowPolicy policy;
  uint8_t wants_detail;
  uint8_t follows_fork;  // restarts, empty, in a forked child
  uint8_t wants_inputs;  // records the inputs of RecordFunctions
  uint8_t spill_state;   // see recorder/store/spill_gate.hpp
  uint8_t spill_pass;    // incremented at the begin (odd) and end (even) of each spill thread pass
  uint64_t max_chunks;
  uint64_t pinned_chunks;  // written under State::lock; the spill thread reads it without (relaxed)
  uint64_t dropped[kMaxDropCauses];  // relaxed atomics
  uint64_t* dropped_in_file;  // copy of `dropped` in the backing file, null without (relaxed)
  // The time (ticks) since which the task switches of all threads have been
  // recorded without a gap; at the latest this session's start. Earlier switches may be missing. 0:
  // unknown.
  uint64_t tasks_since;
  uint64_t reserved[3];  // zeroed at each start
};

// The map from ticks to time that all sessions share: appended to under State::lock, thinned when
// full.
constexpr unsigned kMaxKnots = 2048;
struct KnotList {
  uint32_t count;
  ClockKnot knots[kMaxKnots];
};

// A table of interned names (recorder/names/name_table.hpp). Changed under State::lock.
struct NameStore {
  InternTable* table;   // acquire; partner: release when a table is published
  InternEntry* listed;  // entries whose prototype is loaded, newest first
  uint64_t bytes;       // total size of the entries
  NameBlock* blocks;    // memory blocks; null for the store that lives as long as the process
  char* next;           // bump allocation in the newest block
  char* end;
};

// An annotated library or executable, while it is loaded.
struct Module {
  uintptr_t first, last;  // addresses of its segments
  Module* next;
  struct State* state;    // its own State (the leader's for one of them)
  intptr_t* tls_offset;   // its cached copy of State::tls_offset
  uint32_t* tls_static;   // its cached copy of State::tls_static
  uint64_t loaded_ticks;  // when it joined; records closed earlier cannot refer to it
};

// Entry points into the leader, which is pinned in memory, so that the addresses stay valid.
// Pointers are only appended; check leader_has() before calling one that was added in a minor.
struct RecorderFunctions {
  // Reserves `units` contiguous units, in a new chunk if need be, and moves the cursor. Returns the
  // first; null: counted as dropped.
  Slot* (*reserve_slow)(State*, ThreadBlock*, uint32_t units, uint32_t mask);
  // The calling thread's track, registered on first use; null if it cannot be registered any more.
  Track* (*track)(State*, ThreadBlock*);
  // The interned Site that is a copy of `like` with this name; `like` itself if the table is full.
  const Site* (*intern_site)(State*, const Site* like, const char* name, size_t length);
  // An interned copy of a string, for string arguments; "<too many strings>" when the table is
  // full.
  const char* (*intern_string)(State*, const char* text, size_t length);
  // Rewrites live records and interned sites that refer to [first, last).
  void (*unload)(State*, uintptr_t first, uintptr_t last);
  // The calling thread's primitives (callbacks, debug info), made on first use; null at the very
  // end of a thread.
  ThreadPrimitives* (*primitives)(State*, ThreadBlock*);
  // Begins a range while callbacks are registered: runs their start functions and records it.
  // Returns a token for dispatch_end.
  void* (*dispatch_begin)(State*, const Site* site, const uint64_t* args);
  void (*dispatch_end)(State*, void* token);
  // Encodes perf counters and stacks into `words`, DetailHeader first. Returns the number of words,
  // a multiple of 3 and at most `capacity`. detail_end adds the end values, on the beginning
  // thread.
  size_t (*detail_begin)(State*, ThreadBlock*, uint64_t* words, size_t capacity,
                         const void* caller);
  void (*detail_end)(State*, ThreadBlock*, uint64_t* words);
  // Like intern_site and intern_string, but the result lives only as long as sessions and open
  // records need it. The caller holds a NameUse.
  const Site* (*session_site)(State*, const Site* like, const char* name, size_t length);
  const char* (*session_string)(State*, const char* text, size_t length);
  // Begins a range of `site` with the FunctionDetails (primitives/function_details.hpp) of a
  // RecordFunction. Returns the slot, or null if nothing is recorded. *begin: the value for
  // OpenRange::begin.
  Slot* (*begin_function)(State*, const Site* site, const void* details, uint64_t* begin);
  // Makes the signal handlers' track of the thread that owns `block`; null if the arena is
  // exhausted.
  Track* (*signal_track)(State*, ThreadBlock*, Track* interrupted);
  // Parts of RecordFunction. open: constructs one in `storage` and begins it; null if it has no
  // observer. activate: selects the observers. start: runs start callbacks and begins the range.
  // end: ends both. close: destroys an active one.
  RecordFunction* (*open_function)(State*, void* storage, const Site*);
  void (*activate_function)(State*, RecordFunction*, RecordScope, uint32_t category);
  void (*start_function)(State*, RecordFunction*, const Site* site_or_null);
  void (*end_function)(RecordFunction*);
  void (*close_function)(RecordFunction*);
  // Reports an allocation (or, with `out_of_memory`, a failed request) to the profiler in the
  // thread's PROFILER_STATE slot, if there is one.
  void (*report_memory)(State*, void* ptr, int64_t bytes, uint64_t total_allocated_bytes,
                        uint64_t total_reserved_bytes, uint32_t device, bool out_of_memory);
  // Copies the sites of a library that has joined into the backing file, if there is one.
  void (*module_loaded)(State*, const Module*);
  // Names a thread's track, also in the backing file.
  void (*name_track)(State*, Track*, const char* name, size_t length);
};

// Comments name the lock that guards a field: (lock), (drain_lock).
struct State {
  // -- first 64 bytes: frozen per ABI major
  char magic[16] = {'f', 'a', 's', 't', 'p', 'r', 'o', 'f', 1, 's', 't', 'a', 't', 'e', 13, 10};
  uint16_t abi_major = FASTPROF_ABI_MAJOR;
  uint16_t abi_minor = FASTPROF_ABI_MINOR;
  uint32_t size_bytes = sizeof(State);
  State* leader = nullptr;  // elected State, null before (CAS; partner: acquire load in attach)
  uint32_t mask = 0;        // what all threads record (relaxed; start and stop add a membarrier)
  uint32_t real_mask = 0;   // the full mask when `mask` contains only mask_bit::dynamic
  intptr_t tls_offset = 0;  // of the ThreadBlock from the thread pointer, if tls_static
  // Finds the calling thread's block with either TLS model (release, under `lock`; partner: acquire
  // in dynamic_thread_block).
  ThreadBlock* (*thread_block)() = nullptr;
  const RecorderFunctions* functions = nullptr;  // the leader's
  // -- appended only
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // guards tracks, chunks, sessions, modules,
                                                     // names. Held briefly; never across user code
  // Held while site addresses are dereferenced outside `lock`: excludes unload. Taken before
  // `lock`.
  pthread_mutex_t drain_lock = PTHREAD_MUTEX_INITIALIZER;
  Track* tracks = nullptr;  // all tracks (lock)
  Track* free_tracks = nullptr;
  Chunk* free_chunks = nullptr;           // LIFO: the one most likely in cache first
  Slab* slabs = nullptr;                  // every slab ever mapped and not trimmed
  Slab* carving = nullptr;                // the slab that new chunks are carved from
  Slab* ready = nullptr;                  // pre-faulted and not carved yet
  BlankSlabPlace* blank_slabs = nullptr;  // mapped, without pages (lock)
  uint64_t chunk_count = 0;               // carved chunks: free + in tracks
  uint64_t free_count = 0;
  uint64_t ready_count = 0;    // slabs in `ready`
  uint64_t max_chunks = 0;     // sum over all live sessions
  uint64_t session_epoch = 0;  // incremented at each start, stop and fork (lock); nothing reads it
  uint64_t unload_epoch = 0;   // changes at each unload: caches by address are stale (drain_lock)
  uint64_t next_session_id = 0;
  SessionSlot sessions[kMaxSessions]{};
  uint64_t session_bits = 0;  // live sessions (lock)
  uint64_t keep_bits = 0;     // live sessions that pin chunks; the rest overwrite
  uint64_t local_bits = 0;    // live sessions that are thread-local
  uint32_t extra_mask = 0;    // mask bits set by set_mask_bit
  uint32_t next_track_id = 0;
  uint32_t tls_forced_dynamic = 0;  // FASTPROF_TLS=dynamic
  uint32_t fork_count = 0;          // incremented in each child
  uint32_t tls_static = 0;          // 1: tls_offset is valid, in all threads (lock)
  uint32_t recorded_once =
      0;  // a thread has registered: the thread block's provider is final (lock)
  pthread_key_t exit_key = 0;
  uint32_t exit_key_made = 0;
  uint32_t hooks_installed = 0;      // pthread_atfork
  uint32_t slow_clock = 0;           // the tick counter is not reliable: stamps are slow_ticks()
  uint32_t membarrier = 0;           // 0 unknown, 1 registered, 2 not available
  uint32_t usable_cpus = 0;          // 0 unknown
  uint32_t prefault_running = 0;     // helper thread alive (lock)
  uint32_t prefault_signal = 0;      // futex word
  int64_t node_id = -1;              // default node id, -1 for none
  uint64_t callbacks_users = 0;      // number of non-empty callback sets (relaxed RMW)
  uint64_t callbacks_version = 0;    // of the global ones (release; partner: acquire in dispatch)
  void* global_callbacks = nullptr;  // see primitives/process_primitives.hpp
  Module* modules = nullptr;
  NameStore lasting_names{};  // live as long as the process (lock; readers take none)
  NameStore session_names{};  // live until reclaim_names (lock; readers hold a NameUse)
  uint64_t name_epoch = 0;    // changes at each reclaim of session names (relaxed, under a NameUse)
  uint64_t names_reclaimed_ticks = 0;            // last reclaim, when no session was live (relaxed)
  uint64_t max_name_bytes = uint64_t{64} << 20;  // bound of session_names (lock)
  uint64_t max_name_length = 64 * 1024;          // of a session name, in bytes; longer ones are cut
  char* arena_next = nullptr;                    // bump allocation (lock)
  char* arena_end = nullptr;
  KnotList* knots = nullptr;
  int64_t unix_offset_ns = 0;       // Unix minus monotonic time, fixed at the first session
  uint64_t pending_knot_ticks = 0;  // the first refill after this time adds a clock knot (lock)
  uint64_t late_records = 0;        // relaxed
  uint64_t last_slow_ticks = 0;     // acq_rel RMW in slow_ticks
  uint64_t pid = 0;
  uint64_t default_max_bytes = 0;  // per session; this and the next: set once (session_control.hpp)
  uint64_t cgroup_cpus_x100 = 0;
  uint64_t detail_users = 0;      // sessions that record details (lock)
  uint64_t detail_options[16]{};  // a DetailOptions, valid while mask_bit::detail is set
  uint64_t input_users = 0;       // sessions that record inputs of RecordFunctions: written under
                                  // `lock`, read without it (relaxed)
  uint64_t simulated_counter_hz = 0;  // FASTPROF_CLOCK=<Hz>: slow_ticks rounds down to its steps
  uint32_t spill_requests = 0;        // futex word: wakes the spill threads (release)
  uint32_t spill_progress = 0;        // futex word: room was made, or a pass ended (release)
  // Set by a library that found no leader: makes it use `leader`. A leader that is loaded later
  // calls it under the loader's lock.
  void (*join)(State* leader) = nullptr;
  // The file that the slabs lie in while a session wants one; null before the first such session.
  BackingFile* backing_file = nullptr;
  // Gives the id of the calling thread's stack of Python and native frames, for a block of type
  // python_stack; 0: none. `caller`: see capture_cpp_stack(). Set by the Python layer (release).
  uint64_t (*joined_stack)(const void* caller) = nullptr;
  // Chunks that a thread has left for the next one (recorder/store/shared_chunks.hpp) (lock).
  Chunk* shared_chunks = nullptr;
  uint64_t reserved[25]{};
};

FASTPROF_NAMESPACE_END
