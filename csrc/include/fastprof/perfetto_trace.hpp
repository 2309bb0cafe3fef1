// SPDX-License-Identifier: Apache-2.0
// Writer of traces in Perfetto's native format. Include it to call
// session.write_perfetto_trace(path).
#pragma once

#if !defined(FASTPROF_DISABLE)
// Hide the user's macros min and max from the headers below, the standard ones among them.
#pragma push_macro("min")
#pragma push_macro("max")
#undef min
#undef max

#include <string>

#include "fastprof/session/session.hpp"

FASTPROF_NAMESPACE_BEGIN

template <>
struct PerfettoTraceOf<Capture> {
  static void write(const Capture& capture, const std::string& path);
};

FASTPROF_NAMESPACE_END

#if !FASTPROF_DECLARED_ONLY
#include "fastprof/export/frame_name.hpp"
#include "fastprof/export/perfetto_trace.hpp"

FASTPROF_NAMESPACE_BEGIN

FASTPROF_OUTLINE void PerfettoTraceOf<Capture>::write(const Capture& capture,
                                                      const std::string& path) {
  PerfettoTraceOptions options;
  options.frame_name = capture_frame_name(capture);
  write_perfetto_trace(capture, path, options);
}

FASTPROF_NAMESPACE_END
#endif

#pragma pop_macro("min")
#pragma pop_macro("max")
#endif
