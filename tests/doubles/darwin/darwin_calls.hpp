// SPDX-License-Identifier: Apache-2.0
// What Darwin's <pthread.h>, <stdlib.h> and libSystem have beyond ours, for a compilation of
// fastprof/platform/darwin on Linux: included before each file (-include), with
// FASTPROF_DARWIN_DOUBLES.
#pragma once

#include <pthread.h>
#include <stdint.h>

// ELF lists the parts of a section whose name is a C identifier between two symbols.
#define FASTPROF_STATE_SECTION "fastprof_states"

extern "C" {
int pthread_threadid_np(pthread_t thread, uint64_t* id);
void* pthread_get_stackaddr_np(pthread_t thread);
size_t pthread_get_stacksize_np(pthread_t thread);
const char* getprogname();

// Tells the double where the States of an object lie.
void fake_darwin_add_states(const char* first, const char* last);

extern char __start_fastprof_states[] __attribute__((weak, visibility("hidden")));
extern char __stop_fastprof_states[] __attribute__((weak, visibility("hidden")));
}
int pthread_setname_np(const char* name);  // an overload of the C library's

// Before the constructors of the same priority that follow in this file.
__attribute__((constructor(101), used)) static void fake_darwin_states_loaded() {
  if (__start_fastprof_states != nullptr)
    fake_darwin_add_states(__start_fastprof_states, __stop_fastprof_states);
}
