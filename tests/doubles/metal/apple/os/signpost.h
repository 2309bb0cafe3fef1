// SPDX-License-Identifier: Apache-2.0
// The part of Apple's os_signpost that fastprof calls, declared by us from its documentation. As in
// the system, names and formats must be literals: the macros paste them between others.
#pragma once

#include <os/log.h>
#include <stdbool.h>
#include <stdint.h>

typedef uint64_t os_signpost_id_t;
#define OS_SIGNPOST_ID_NULL ((os_signpost_id_t)0)

#ifdef __cplusplus
extern "C" {
#endif
bool os_signpost_enabled(os_log_t log);
os_signpost_id_t os_signpost_id_generate(os_log_t log);
os_signpost_id_t os_signpost_id_make_with_pointer(os_log_t log, const void* pointer);
// kind: 'e' event, 'b' begin, 'n' end.
void fake_os_signpost(os_log_t log, char kind, os_signpost_id_t id, const char* name,
                      const char* format, ...);
#ifdef __cplusplus
}
#endif

#define os_signpost_event_emit(log, id, name, ...) \
  fake_os_signpost(log, 'e', id, "" name "", "" __VA_ARGS__)
#define os_signpost_interval_begin(log, id, name, ...) \
  fake_os_signpost(log, 'b', id, "" name "", "" __VA_ARGS__)
#define os_signpost_interval_end(log, id, name, ...) \
  fake_os_signpost(log, 'n', id, "" name "", "" __VA_ARGS__)
