// SPDX-License-Identifier: Apache-2.0
// Writer of Chrome JSON traces, for chrome://tracing, Perfetto, TensorBoard and HTA. Include it to
// call session.write_chrome_trace(path).
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
struct ChromeTraceOf<Capture> {
  static void write(const Capture& capture, const std::string& path);
};

FASTPROF_NAMESPACE_END

#if !FASTPROF_DECLARED_ONLY
#include "fastprof/export/chrome_trace.hpp"
#include "fastprof/export/frame_name.hpp"

FASTPROF_NAMESPACE_BEGIN

FASTPROF_OUTLINE void ChromeTraceOf<Capture>::write(const Capture& capture,
                                                    const std::string& path) {
  ChromeTraceOptions options;
  options.frame_name = capture_frame_name(capture);
  write_chrome_trace(capture, path, options);
}

FASTPROF_NAMESPACE_END
#endif

#pragma pop_macro("min")
#pragma pop_macro("max")
#endif
