/* SPDX-License-Identifier: Apache-2.0 */
/* C interface of device plug-ins: a plug-in makes fastprof record the work of one kind of device
 * that fastprof does not support itself. C99 and C++; needs no other header of fastprof and no
 * library to link with.
 *
 * A plug-in is a shared library that exports
 *
 *     const fastprof_device_plugin* fastprof_device_plugin_open(const fastprof_device_host* host);
 *
 * It returns a table of the plug-in's functions, or NULL if it cannot work with this host; fastprof
 * then refuses the plug-in with a message. The table stays valid and unchanged until the process
 * ends (fastprof never unloads the library). The function may be called more than once.
 *
 * docs/device_plugins.md explains how to build, register and test a plug-in; examples/device_plugin
 * is a complete one.
 *
 * Rules for all functions of the table, unless said otherwise:
 * - They may be called from any thread, one at a time (those of fastprof_device_stubs:
 *   concurrently).
 * - No exception and no longjmp should leave them. fastprof catches C++ exceptions, and reports
 *   them.
 * - Texts are UTF-8 and end with a null byte. fastprof copies what it is given before the call
 *   returns.
 * - `self` is the table's `self`.
 *
 * Versions: a host accepts a plug-in of the same major version. Within a major version, structs
 * only grow at their end: check `size` before reading a member that a minor version added. */
#ifndef FASTPROF_DEVICE_PLUGIN_H
#define FASTPROF_DEVICE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FASTPROF_DEVICE_PLUGIN_MAJOR 1
#define FASTPROF_DEVICE_PLUGIN_MINOR 0

#if defined(__GNUC__)
#define FASTPROF_DEVICE_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define FASTPROF_DEVICE_PLUGIN_EXPORT
#endif

/* Returned instead of an index by functions of the sink that refuse what they are given, and given
 * as `text` by activities without one. */
#define FASTPROF_NO_INDEX 0xFFFFFFFFu

/* Types of activities. Calls and overhead take place on threads, all others on device queues. */
enum {
  FASTPROF_ACTIVITY_KERNEL = 0,      /* traces: "kernel" */
  FASTPROF_ACTIVITY_COPY = 1,        /* "gpu_memcpy" */
  FASTPROF_ACTIVITY_FILL = 2,        /* "gpu_memset" */
  FASTPROF_ACTIVITY_WAIT = 3,        /* a queue waits: "privateuse1_sync" */
  FASTPROF_ACTIVITY_CALL = 4,        /* of the runtime: "privateuse1_runtime" */
  FASTPROF_ACTIVITY_DRIVER_CALL = 5, /* "privateuse1_driver" */
  FASTPROF_ACTIVITY_OVERHEAD = 6     /* what collecting costs: "overhead" */
};

/* Types of arguments, each one word of 64 bits. */
enum {
  FASTPROF_ARGUMENT_INT64 = 0,
  FASTPROF_ARGUMENT_UINT64 = 1,
  FASTPROF_ARGUMENT_FLOAT64 = 2, /* the bits of a double */
  FASTPROF_ARGUMENT_BOOL = 3
};

/* Clocks of stamps. */
enum {
  FASTPROF_CLOCK_TICKS = 0,     /* fastprof's own: host->ticks(). Needs no conversion: the best. */
  FASTPROF_CLOCK_MONOTONIC = 1, /* CLOCK_MONOTONIC, in ns */
  FASTPROF_CLOCK_REALTIME = 2,  /* CLOCK_REALTIME, in ns */
  /* Any other steady clock, which read_clock() reads. Stamps are converted by the line through a
   * reading at the begin and one at the end of the collection. */
  FASTPROF_CLOCK_OWN = 3
};

/* Flags of a plug-in. */
enum {
  /* Collections may be begun in forked children. Without it no function is called there. */
  FASTPROF_DEVICE_FORK_SAFE = 1
};

/* Why a call failed: a text for users, written by the plug-in, that says what failed and what to
 * do. */
typedef struct fastprof_reason {
  char text[512];
} fastprof_reason;

/* Functions of fastprof for a plug-in; valid until the process ends. */
typedef struct fastprof_device_host {
  uint32_t size; /* sizeof(fastprof_device_host) of the host */
  uint16_t major;
  uint16_t minor;
  const char* version; /* of fastprof: "0.1.0" */
  /* fastprof's clock, in its ticks. Any thread, also in signal handlers; a few ns. */
  uint64_t (*ticks)(void);
} fastprof_device_host;

/* Properties shared by activities of the same name, e.g. a kernel or a function of the runtime. */
typedef struct fastprof_activity_kind {
  uint32_t size; /* sizeof(fastprof_activity_kind) of the plug-in */
  uint32_t type; /* FASTPROF_ACTIVITY_... */
  const char* name;
  /* Arguments that each activity has, beside its device, queue and correlation, which fastprof
   * adds. "bytes" of a copy or fill also gives its bandwidth. */
  uint32_t argument_count;
  const char* const* argument_names;
  const uint8_t* argument_types; /* FASTPROF_ARGUMENT_... */
} fastprof_activity_kind;

/* One activity. Fixed for a major version. */
typedef struct fastprof_activity {
  /* Stamps of the plug-in's clock; of calls and overhead, of its call_clock. begin > 0,
   * end >= begin. */
  uint64_t begin;
  uint64_t end;
  /* Links work to the call that started it: both have the same number, unique among the calls of a
   * collection; 0: not linked. Work is attributed to the range in which its call was made. */
  uint32_t correlation;
  uint32_t kind;             /* returned by sink->kind() */
  uint32_t place;            /* returned by sink->queue() or sink->thread() */
  uint32_t text;             /* returned by sink->text(), or FASTPROF_NO_INDEX */
  const uint64_t* arguments; /* argument_count words of its kind; may be NULL if there are none */
} fastprof_activity;

/* Receives the activities of one collection. Valid only during the call of end(), on its thread.
 * Invalid activities are discarded, counted, and reported to the user of the profile. */
typedef struct fastprof_activity_sink {
  uint32_t size; /* sizeof(fastprof_activity_sink) of the host */
  void* state;   /* the first argument of all functions */
  /* Returns the index of a queue of a device, the same one for the same queue. device, number:
   * >= 0. name: NULL for "queue N". */
  uint32_t (*queue)(void* state, int32_t device, int64_t number, const char* name);
  /* Returns the index of a thread of this process. thread_id: the kernel's (gettid()). name: NULL
   * for the name that the recorder has for it. */
  uint32_t (*thread)(void* state, int64_t thread_id, const char* name);
  /* Returns the index of a kind; the same one for the same kind. */
  uint32_t (*kind)(void* state, const fastprof_activity_kind* kind);
  /* Returns the index of a text of further arguments, a JSON object: {"grid":[1,1,1]}. Activities
   * may share it. */
  uint32_t (*text)(void* state, const char* json);
  /* Adds activities, in any order. Returns how many were accepted. */
  size_t (*add)(void* state, const fastprof_activity* activities, size_t count);
  /* Counts activities that the plug-in had no room for. */
  void (*dropped)(void* state, uint64_t count);
  /* Reports to the user which activities the profile lacks, and why. */
  void (*problem)(void* state, const char* text);
} fastprof_activity_sink;

/* Timed events on a device and annotations, for the exclusive profiler (state PRIVATEUSE1); the
 * counterpart of PyTorch's ProfilerStubs. Called concurrently. Functions that return int return 0
 * on success; after a failed record() the range has no device time. */
typedef struct fastprof_device_stubs {
  uint32_t size; /* sizeof(fastprof_device_stubs) of the plug-in */
  /* Records an event on the calling thread's current device and queue: the device's number, a
   * handle of the event, and the time of the call (CLOCK_MONOTONIC, ns). */
  int (*record)(void* self, int32_t* device, uint64_t* event, int64_t* cpu_ns);
  void (*release)(void* self, uint64_t event);
  /* Time between two events of one device, in us. Waits for them. */
  int (*elapsed_us)(void* self, uint64_t begin, uint64_t end, double* us);
  /* Calls action(state, device) once for each device, with that device current. */
  int (*on_each_device)(void* self, void (*action)(void* state, int32_t device), void* state);
  int (*synchronize)(void* self); /* waits for the work of the current device */
  int (*enabled)(void* self);     /* 1: usable. NULL: always */
  /* Annotations for the device's own tools; each may be NULL. */
  void (*mark)(void* self, const char* text);
  void (*range_push)(void* self, const char* text);
  void (*range_pop)(void* self);
} fastprof_device_stubs;

/* A plug-in: one kind of device. */
typedef struct fastprof_device_plugin {
  uint32_t size;  /* sizeof(fastprof_device_plugin) of the plug-in */
  uint16_t major; /* FASTPROF_DEVICE_PLUGIN_MAJOR */
  uint16_t minor;
  /* Name of the device in tables and as use_device: a lower-case letter, then up to 31 lower-case
   * letters, digits and underscores; not "cpu" or "cuda". */
  const char* name;
  /* PyTorch's number of the device type: PrivateUse1 20, XPU 12, HPU 15, MTIA 19. */
  int32_t device_type;
  uint32_t flags; /* FASTPROF_DEVICE_... */
  uint32_t clock; /* of work on queues: FASTPROF_CLOCK_... */
  /* Of calls and overhead, on threads: any but FASTPROF_CLOCK_OWN. A call is linked to the range
   * that contains its stamps, so use FASTPROF_CLOCK_TICKS: others are converted with an error of
   * some hundred ns. */
  uint32_t call_clock;
  double clock_hz; /* of FASTPROF_CLOCK_OWN: ticks per second; 0: 1e9. Used for collections of less
                      than 1 ms. */
  void* self;
  /* Returns 1 if activities can be collected now, else 0 and a reason. NULL: always. */
  int (*usable)(void* self, fastprof_reason* reason);
  /* Begins a collection of the activities whose type's bit (1 << FASTPROF_ACTIVITY_...) is set in
   * types. Any number may be open at once; each receives all activities from its begin to its end.
   * Returns the collection's number, or 0 and a reason. */
  uint64_t (*begin)(void* self, uint32_t types, fastprof_reason* reason);
  /* Waits for the device's work, passes the collection's activities to the sink, and ends the
   * collection. Collections end in any order, each once, by end() or abandon(). Returns 0, or
   * another number and a reason; activities that the sink accepted are kept. */
  int (*end)(void* self, uint64_t collection, const fastprof_activity_sink* sink,
             fastprof_reason* reason);
  void (*abandon)(void* self, uint64_t collection); /* ends a collection, discards its activities */
  uint64_t (*read_clock)(void* self); /* FASTPROF_CLOCK_OWN, else NULL. Any thread, concurrently. */
  const fastprof_device_stubs* stubs; /* NULL: none */
} fastprof_device_plugin;

/* The function that the library exports. */
typedef const fastprof_device_plugin* (*fastprof_device_plugin_open_function)(
    const fastprof_device_host* host);

#ifdef __cplusplus
}
#endif

#endif /* FASTPROF_DEVICE_PLUGIN_H */
