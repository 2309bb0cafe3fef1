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

namespace legacy_detail {

// What went wrong while writing, and which error that is.
struct WriteFault {
  const char* message = nullptr;  // null: nothing
  bool is_io = false;
};

inline WriteFault try_write_events(std::ostream& out, const LegacyEventLists& lists) {
  if (!out)
    return {"Could not open file; check that its directory exists and can be written to", true};
  std::string text;
  if (const char* fault = append_trace_json(text, lists)) return {fault, false};
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.flush();
  if (!out) return {"Could not write the events; the device may be full", true};
  return {};
}

}  // namespace legacy_detail

// Writes a JSON array with one complete event ("X") per pop, in pop order: name, ts (us since
// __start_profile), dur (us), tid (the thread that began the range), pid "CPU Functions". Open
// ranges, marks and memory are not written. Raises IoError when `out` is not open or fails,
// FormatError without a __start_profile mark and for a pop without its push; nothing is written
// then. The lists must not change meanwhile; otherwise any thread.
inline void write_events(std::ostream& out, const LegacyEventLists& lists) {
  const legacy_detail::WriteFault fault = legacy_detail::try_write_events(out, lists);
  if (fault.message == nullptr) return;
  if (fault.is_io) raise<IoError>(fault.message);
  raise<FormatError>(fault.message);
}

FASTPROF_NAMESPACE_END
