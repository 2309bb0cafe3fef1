/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime of an accelerator that does not exist: it pretends to run what is launched, one after the
 * other on each queue, on a clock of its own. Stands for the library that a real plug-in observes. */
#ifndef TOY_NPU_H
#define TOY_NPU_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TOY_NPU_API __attribute__((visibility("default")))
#else
#define TOY_NPU_API
#endif

#define TOY_NPU_DEVICES 2
#define TOY_NPU_CLOCK_HZ 100e6 /* the device counts steps of 10 ns */

/* Calls of programs. Any thread; they return at once. Return the number of the launch, or 0 if the
 * arguments are invalid. */
TOY_NPU_API uint32_t toy_npu_launch(const char* name, int device, int queue, uint64_t duration_ns);
TOY_NPU_API uint32_t toy_npu_copy(size_t bytes, int device, int queue, uint64_t duration_ns);
/* Waits until all work that was launched before has ended. */
TOY_NPU_API void toy_npu_synchronize(void);

/* What the runtime offers to profilers: a record of each launch while somebody listens. */
typedef struct toy_npu_record {
  char name[48]; /* longer ones are cut */
  uint32_t number;
  int device, queue;
  int64_t thread_id;
  uint64_t call_begin, call_end;   /* of the listener's clock */
  uint64_t work_begin, work_end;   /* of the device's clock */
  uint64_t bytes;                  /* of a copy; 0 for kernels */
} toy_npu_record;

/* Starts to keep records. clock: stamps of calls. Further listeners change nothing but the count. */
void toy_npu_listen(uint64_t (*clock)(void));
void toy_npu_ignore(void);
uint64_t toy_npu_clock(void);
uint64_t toy_npu_count(void); /* records so far, those of earlier listeners included */
/* Returns the record with this index, which stays where it is until nobody listens. */
const toy_npu_record* toy_npu_at(uint64_t index);

#endif /* TOY_NPU_H */
