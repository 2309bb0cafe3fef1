/* SPDX-License-Identifier: Apache-2.0 */
/* The tracepoint that lttng_scope.cpp hits; the form is LTTng's. */
#undef TRACEPOINT_PROVIDER
#define TRACEPOINT_PROVIDER fastprof_peer
#undef TRACEPOINT_INCLUDE
#define TRACEPOINT_INCLUDE "./lttng_provider.h"
#if !defined(FASTPROF_PEER_LTTNG_H) || defined(TRACEPOINT_HEADER_MULTI_READ)
#define FASTPROF_PEER_LTTNG_H
#include <lttng/tracepoint.h>
TRACEPOINT_EVENT(fastprof_peer, scope, TP_ARGS(int, begin), TP_FIELDS(ctf_integer(int, begin, begin)))
#endif
#include <lttng/tracepoint-event.h>
