// SPDX-License-Identifier: Apache-2.0
// EventScanner: reads the common events of a Chrome trace (Trace Event Format) into columns. All
// other events are left to the caller.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "core/trace_json/json_cursor.hpp"
#include "core/trace_rows/row_store.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_json {

using trace_rows::Block;
using trace_rows::Member;

class EventScanner {
 public:
  explicit EventScanner(trace_rows::Conventions conventions);

  // Scans events from the begin of a value, or (after_value) from the comma after one. Returns the
  // rows of complete events only: Block::consumed is where to continue. Not thread-safe.
  Block scan(std::string_view data, bool after_value);

  trace_rows::RowStore& store() noexcept { return store_; }
  const trace_rows::RowStore& store() const noexcept { return store_; }

 private:
  struct Span {
    std::string_view text;  // JSON; empty: absent
    bool escapes = false;
  };
  struct Event {
    Span phase, name, category, pid, tid, start, duration, id;
    bool repeats = false;    // a member occurs twice, or a name of one contains escapes
    bool has_stack = false;  // a member that the caller reads: sf or stack
    uint32_t seen = 0;
  };

  Read read_event(Cursor& cursor);
  Read read_args(Cursor& cursor);
  Span* field(std::string_view key, uint32_t& bit);
  bool add_event(Block& block, bool& is_complete);
  // Args of memory records: the words of a row in the order of its payload, then others.
  enum MemoryArg { address, bytes, allocated, reserved, device_type, device_id, allocator };
  static constexpr size_t kMemoryWords = 4;
  static constexpr size_t kMemoryArgs = 7;
  // Appends the payload of a memory record and sets its device and allocator in `site`. Returns
  // false, having changed nothing, if the caller must read it.
  bool add_memory(Block& block, uint32_t row, trace_rows::ScannedSite& site);

  trace_rows::RowStore store_;
  Event event_;
  std::vector<Member> members_;
  uint32_t memory_keys_[kMemoryArgs];  // codes of the names of MemoryArg
};

}  // namespace trace_json
FASTPROF_NAMESPACE_END
