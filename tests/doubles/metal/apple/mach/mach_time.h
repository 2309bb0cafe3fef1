// SPDX-License-Identifier: Apache-2.0
// The part of Mach's clock that fastprof calls, declared by us from its documentation.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
typedef struct {
  uint32_t numer;
  uint32_t denom;
} mach_timebase_info_data_t;
int mach_timebase_info(mach_timebase_info_data_t* info);
uint64_t mach_absolute_time(void);
#ifdef __cplusplus
}
#endif
