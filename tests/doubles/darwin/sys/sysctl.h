// SPDX-License-Identifier: Apache-2.0
// Double of <sys/sysctl.h>, declared by us.
#pragma once

#include <sys/time.h>

#include <cstddef>

#define CTL_KERN 1
#define KERN_PROC 14
#define KERN_PROC_PID 1

struct kinfo_proc {
  struct {
    timeval p_starttime;
    char p_stat;
  } kp_proc;
};

extern "C" {
int sysctl(int* name, unsigned names, void* old, size_t* old_bytes, void* fresh,
           size_t fresh_bytes);
int sysctlbyname(const char* name, void* old, size_t* old_bytes, void* fresh, size_t fresh_bytes);
}
