// SPDX-License-Identifier: Apache-2.0
// write_events: the finished ranges of the exclusive profiler as a Chrome trace.
#pragma once

#include <ostream>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/legacy/event_json.hpp"
#include "fastprof/legacy/legacy_event.hpp"

FASTPROF_NAMESPACE_BEGIN

// Writes a JSON array with one complete event ("X") per pop, in pop order: name, ts (us since
// __start_profile), dur (us), tid (the thread that began the range), pid "CPU Functions". Open
// ranges, marks and memory are not written. Raises IoError when `out` is not open or fails,
// FormatError without a __start_profile mark and for a pop without its push; nothing is written
// then. The lists must not change meanwhile; otherwise any thread.
inline void write_events(std::ostream& out, const LegacyEventLists& lists) {
  if (!out)
    raise<IoError>("Could not open file; check that its directory exists and can be written to");
  std::string text;
  if (const char* fault = legacy_detail::append_trace_json(text, lists)) raise<FormatError>(fault);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.flush();
  if (!out) raise<IoError>("Could not write the events; the device may be full");
}

FASTPROF_NAMESPACE_END
