// SPDX-License-Identifier: Apache-2.0
// Double of <mach/mach_time.h>: declared by us after Apple's documentation; fake_darwin.cpp defines
// it.
#pragma once

#include <cstdint>

#define KERN_SUCCESS 0

typedef int kern_return_t;

struct mach_timebase_info_data_t {
  uint32_t numer;
  uint32_t denom;
};

extern "C" {
kern_return_t mach_timebase_info(mach_timebase_info_data_t* info);
uint64_t mach_absolute_time();
uint64_t mach_continuous_time();
}
