// SPDX-License-Identifier: Apache-2.0
// The part of Apple's os_log that fastprof calls, declared by us from its documentation.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
typedef struct fake_os_log* os_log_t;
os_log_t os_log_create(const char* subsystem, const char* category);
#ifdef __cplusplus
}
#endif
