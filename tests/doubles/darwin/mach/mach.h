// SPDX-License-Identifier: Apache-2.0
// Double of <mach/mach.h>: the calls on tasks and threads that fastprof makes, declared by us.
#pragma once

#include <cstdint>

#include "mach/mach_time.h"

#define KERN_INVALID_ARGUMENT 4
#define KERN_TERMINATED 37
#define MACH_SEND_INVALID_DEST 0x10000003
#define MACHINE_THREAD_STATE 6
#define MACHINE_THREAD_STATE_COUNT 68
#define THREAD_IDENTIFIER_INFO 4
#define THREAD_IDENTIFIER_INFO_COUNT 6

typedef uint32_t natural_t;
typedef uint32_t mach_port_t;
typedef mach_port_t task_t;
typedef mach_port_t thread_t;
typedef mach_port_t thread_act_t;
typedef thread_act_t* thread_act_array_t;
typedef uint32_t mach_msg_type_number_t;
typedef natural_t* thread_state_t;
typedef int* thread_info_t;
typedef uintptr_t vm_address_t;

struct thread_identifier_info_data_t {
  uint64_t thread_id;
  uint64_t thread_handle;
  uint64_t dispatch_qaddr;
};

extern "C" {
task_t mach_task_self();
thread_t mach_thread_self();
kern_return_t task_threads(task_t task, thread_act_array_t* threads, mach_msg_type_number_t* count);
kern_return_t thread_get_state(thread_act_t thread, int flavor, thread_state_t state,
                               mach_msg_type_number_t* count);
kern_return_t thread_info(thread_act_t thread, int flavor, thread_info_t info,
                          mach_msg_type_number_t* count);
kern_return_t mach_port_deallocate(task_t task, mach_port_t port);
kern_return_t vm_deallocate(task_t task, vm_address_t address, uintptr_t bytes);
}
