/* SPDX-License-Identifier: Apache-2.0 */
/* The toy accelerator: see toy_npu.h. */
#define _GNU_SOURCE
#include "toy_npu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { kQueues = 8, kBlock = 1024 };

typedef struct block {
  toy_npu_record records[kBlock];
  struct block* next;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t free_at[TOY_NPU_DEVICES][kQueues]; /* when a queue ends its work, device's clock */
static uint32_t launches;
static int listeners;
static uint64_t (*call_clock)(void);
static uint64_t first_record, records; /* index of the first that is kept; how many there were */
static block *first_block, *last_block;

/* 10 ns steps, from another origin than the host's clock. */
uint64_t toy_npu_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) / 10 + 987654321u;
}

static toy_npu_record* new_record(void) {
  const uint64_t in_block = (records - first_record) % kBlock;
  if (in_block == 0) {
    block* const fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL) return NULL;
    if (last_block != NULL)
      last_block->next = fresh;
    else
      first_block = fresh;
    last_block = fresh;
  }
  ++records;
  return &last_block->records[in_block];
}

static uint32_t submit(const char* name, size_t bytes, int device, int queue, uint64_t duration_ns) {
  if (device < 0 || device >= TOY_NPU_DEVICES || queue < 0 || queue >= kQueues) return 0;
  pthread_mutex_lock(&lock);
  const uint64_t begin = call_clock != NULL ? call_clock() : 0;
  uint64_t* const queue_free_at = &free_at[device][queue];
  const uint64_t now = toy_npu_clock() + 100; /* it takes 1 us to get there */
  const uint64_t work_begin = now > *queue_free_at ? now : *queue_free_at;
  *queue_free_at = work_begin + duration_ns / 10;
  const uint32_t number = ++launches != 0 ? launches : ++launches;
  toy_npu_record* const record = listeners != 0 ? new_record() : NULL;
  if (record != NULL) {
    strncpy(record->name, name, sizeof record->name - 1);
    record->number = number;
    record->device = device;
    record->queue = queue;
    record->thread_id = syscall(SYS_gettid);
    record->call_begin = begin;
    record->work_begin = work_begin;
    record->work_end = *queue_free_at;
    record->bytes = bytes;
    record->call_end = call_clock();
  }
  pthread_mutex_unlock(&lock);
  return number;
}

uint32_t toy_npu_launch(const char* name, int device, int queue, uint64_t duration_ns) {
  return submit(name, 0, device, queue, duration_ns);
}

uint32_t toy_npu_copy(size_t bytes, int device, int queue, uint64_t duration_ns) {
  return submit("copy host to device", bytes, device, queue, duration_ns);
}

void toy_npu_synchronize(void) {
  pthread_mutex_lock(&lock);
  uint64_t last = 0;
  for (int device = 0; device < TOY_NPU_DEVICES; ++device)
    for (int queue = 0; queue < kQueues; ++queue)
      if (free_at[device][queue] > last) last = free_at[device][queue];
  pthread_mutex_unlock(&lock);
  const uint64_t now = toy_npu_clock();
  if (last <= now) return;
  const uint64_t left_ns = (last - now) * 10;
  const struct timespec left = {(time_t)(left_ns / 1000000000u), (long)(left_ns % 1000000000u)};
  nanosleep(&left, NULL);
}

void toy_npu_listen(uint64_t (*clock)(void)) {
  pthread_mutex_lock(&lock);
  ++listeners;
  call_clock = clock;
  pthread_mutex_unlock(&lock);
}

void toy_npu_ignore(void) {
  pthread_mutex_lock(&lock);
  if (--listeners == 0) {
    for (block* each = first_block; each != NULL;) {
      block* const next = each->next;
      free(each);
      each = next;
    }
    first_block = last_block = NULL;
    first_record = records;
  }
  pthread_mutex_unlock(&lock);
}

uint64_t toy_npu_count(void) {
  pthread_mutex_lock(&lock);
  const uint64_t count = records;
  pthread_mutex_unlock(&lock);
  return count;
}

const toy_npu_record* toy_npu_at(uint64_t index) {
  const toy_npu_record* found = NULL;
  pthread_mutex_lock(&lock);
  if (index >= first_record && index < records) {
    const block* in = first_block;
    for (uint64_t skip = (index - first_record) / kBlock; skip > 0; --skip) in = in->next;
    found = &in->records[(index - first_record) % kBlock];
  }
  pthread_mutex_unlock(&lock);
  return found;
}
