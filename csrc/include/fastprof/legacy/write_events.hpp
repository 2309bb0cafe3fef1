// SPDX-License-Identifier: Apache-2.0
// write_events: writes finished ranges of the exclusive profiler as a Chrome trace.
#pragma once

#include <ostream>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/legacy/event_json.hpp"
#include "fastprof/legacy/legacy_event.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace legacy_detail {

// Error of a write: its message and whether it is an I/O error.
struct WriteFault {
  const char* message = nullptr;  // null: no error
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
// ranges, marks and memory events are omitted. Raises IoError if `out` is not open or fails;
// FormatError, with nothing written, if there is no __start_profile mark or a pop has no push. Any
// thread; `lists` must not change during the call.
inline void write_events(std::ostream& out, const LegacyEventLists& lists) {
  const legacy_detail::WriteFault fault = legacy_detail::try_write_events(out, lists);
  if (fault.message == nullptr) return;
  if (fault.is_io) raise<IoError>(fault.message);
  raise<FormatError>(fault.message);
}

FASTPROF_NAMESPACE_END
