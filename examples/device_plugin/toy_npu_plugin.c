/* SPDX-License-Identifier: Apache-2.0 */
/* A device plug-in for fastprof: observes the toy accelerator of toy_npu.h. In C99, on the C interface
 * alone; copy it to begin one of your own. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <fastprof/device_plugin.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "toy_npu.h"

enum { kOpen = 64 }; /* collections at once */

/* A collection is a position in the runtime's records. */
typedef struct collection {
  uint64_t number; /* 0: unused */
  uint64_t first;
  uint32_t types;
} collection;

static const fastprof_device_host* host;
static collection collections[kOpen]; /* fastprof calls one function at a time: no lock is needed */
static uint64_t last_number;

static int usable(void* self, fastprof_reason* reason) {
  (void)self;
  const char* const off = getenv("TOY_NPU_OFF");
  if (off == NULL || off[0] == 0) return 1;
  strncpy(reason->text, "the toy accelerator is switched off by TOY_NPU_OFF: unset it",
          sizeof reason->text - 1);
  return 0;
}

static uint64_t begin(void* self, uint32_t types, fastprof_reason* reason) {
  if (!usable(self, reason)) return 0;
  for (int i = 0; i < kOpen; ++i) {
    if (collections[i].number != 0) continue;
    toy_npu_listen(host->ticks);
    collections[i].number = ++last_number;
    collections[i].first = toy_npu_count();
    collections[i].types = types;
    return last_number;
  }
  strncpy(reason->text, "64 collections are open already: end one", sizeof reason->text - 1);
  return 0;
}

static collection* find(uint64_t number) {
  for (int i = 0; i < kOpen; ++i)
    if (collections[i].number == number) return &collections[i];
  return NULL;
}

static uint32_t add_kind(const fastprof_activity_sink* sink, uint32_t type, const char* name) {
  static const char* const names[] = {"bytes"};
  static const uint8_t types[] = {FASTPROF_ARGUMENT_UINT64};
  fastprof_activity_kind kind;
  memset(&kind, 0, sizeof kind);
  kind.size = sizeof kind;
  kind.type = type;
  kind.name = name;
  if (type == FASTPROF_ACTIVITY_COPY) {
    kind.argument_count = 1;
    kind.argument_names = names;
    kind.argument_types = types;
  }
  return sink->kind(sink->state, &kind);
}

static void report(const fastprof_activity_sink* sink, const toy_npu_record* record,
                   uint32_t call_kind, uint32_t work_kind, uint32_t text) {
  fastprof_activity both[2];
  memset(both, 0, sizeof both);
  both[0].begin = record->call_begin;
  both[0].end = record->call_end;
  both[0].kind = call_kind;
  both[0].place = sink->thread(sink->state, record->thread_id, NULL);
  both[0].text = FASTPROF_NO_INDEX;
  both[1].begin = record->work_begin;
  both[1].end = record->work_end;
  both[1].kind = work_kind;
  both[1].place = sink->queue(sink->state, record->device, record->queue, NULL);
  both[1].text = text;
  both[1].arguments = &record->bytes;
  both[0].correlation = both[1].correlation = record->number;
  sink->add(sink->state, both, 2);
}

static int end(void* self, uint64_t number, const fastprof_activity_sink* sink,
               fastprof_reason* reason) {
  (void)self;
  collection* const ended = find(number);
  if (ended == NULL) {
    strncpy(reason->text, "there is no such collection", sizeof reason->text - 1);
    return 1;
  }
  toy_npu_synchronize();
  const uint32_t launch = add_kind(sink, FASTPROF_ACTIVITY_CALL, "toy_npu_launch");
  const uint32_t launch_copy = add_kind(sink, FASTPROF_ACTIVITY_CALL, "toy_npu_copy");
  const uint32_t copy = add_kind(sink, FASTPROF_ACTIVITY_COPY, "copy host to device");
  const uint32_t tile = sink->text(sink->state, "{\"tile\":[16,16]}");
  const char* known = NULL; /* the last kernel's name, to save a look-up where it repeats */
  uint32_t kernel = FASTPROF_NO_INDEX;
  const uint64_t count = toy_npu_count();
  for (uint64_t i = ended->first; i < count; ++i) {
    const toy_npu_record* const record = toy_npu_at(i);
    if (record == NULL) continue;
    if (record->bytes != 0) {
      report(sink, record, launch_copy, copy, FASTPROF_NO_INDEX);
      continue;
    }
    if (known == NULL || strcmp(known, record->name) != 0) {
      known = record->name;
      kernel = add_kind(sink, FASTPROF_ACTIVITY_KERNEL, known);
    }
    report(sink, record, launch, kernel, tile);
  }
  ended->number = 0;
  toy_npu_ignore();
  return 0;
}

static void abandon(void* self, uint64_t number) {
  (void)self;
  collection* const ended = find(number);
  if (ended == NULL) return;
  ended->number = 0;
  toy_npu_ignore();
}

static uint64_t read_clock(void* self) {
  (void)self;
  return toy_npu_clock();
}

/* ---- the exclusive profiler: events are readings of the device's clock -------------------------- */

static int record_event(void* self, int32_t* device, uint64_t* event, int64_t* cpu_ns) {
  (void)self;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *device = 0;
  *event = toy_npu_clock();
  *cpu_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  return 0;
}
static void release_event(void* self, uint64_t event) {
  (void)self;
  (void)event;
}
static int elapsed_us(void* self, uint64_t from, uint64_t until, double* us) {
  (void)self;
  *us = ((double)until - (double)from) * 1e6 / TOY_NPU_CLOCK_HZ;
  return 0;
}
static int on_each_device(void* self, void (*action)(void*, int32_t), void* state) {
  (void)self;
  action(state, 0);
  return 0;
}
static int synchronize(void* self) {
  (void)self;
  toy_npu_synchronize();
  return 0;
}

static const fastprof_device_stubs stubs = {
    .size = sizeof(fastprof_device_stubs),
    .record = record_event,
    .release = release_event,
    .elapsed_us = elapsed_us,
    .on_each_device = on_each_device,
    .synchronize = synchronize,
};

static const fastprof_device_plugin plugin = {
    .size = sizeof(fastprof_device_plugin),
    .major = FASTPROF_DEVICE_PLUGIN_MAJOR,
    .minor = FASTPROF_DEVICE_PLUGIN_MINOR,
    .name = "toynpu",
    .device_type = 20, /* PrivateUse1 */
    .clock = FASTPROF_CLOCK_OWN,
    .call_clock = FASTPROF_CLOCK_TICKS,
    .clock_hz = TOY_NPU_CLOCK_HZ,
    .usable = usable,
    .begin = begin,
    .end = end,
    .abandon = abandon,
    .read_clock = read_clock,
    .stubs = &stubs,
};

FASTPROF_DEVICE_PLUGIN_EXPORT const fastprof_device_plugin* fastprof_device_plugin_open(
    const fastprof_device_host* given) {
  host = given;
  return &plugin;
}
