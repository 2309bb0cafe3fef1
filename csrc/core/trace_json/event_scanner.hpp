// SPDX-License-Identifier: Apache-2.0
// EventScanner: reads the events of a Chrome trace (Trace Event Format) into columns. Names, sites,
// tracks and args are interned; args are kept as codes and turned back into JSON when requested.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace_json/codes.hpp"
#include "core/trace_json/json_cursor.hpp"
#include "fastprof/base/column.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_json {

// What the scanner must know of the traces' conventions.
struct Conventions {
  std::vector<std::string> numbers;  // args that are integers; sparse column i of a block each
  std::vector<std::string> lists;    // args that are lists; sparse columns after the numbers
  std::vector<std::string> texts;    // args that are strings; sparse columns after the lists
  std::vector<std::string> states;   // args that encode a range's state; at most 16
  std::string engine_prefix;         // ranges of the autograd engine: prefix + backward function
  std::string op_category;           // category of operators
  uint32_t forward_thread = 0;       // index in `numbers`; positive in backward functions
  int64_t other_pid = 0;             // process whose events are left to the caller
};

// Values of the rows that have one. Rows count from the block's first.
struct SparseColumn {
  Column<uint32_t> rows;
  Column<int64_t> values;  // numbers, or codes of texts
};

// An event that the scanner does not interpret: text [begin, end) of the buffer is a valid JSON
// object. `rows` and `events` precede it in the block.
struct OtherEvent {
  size_t begin, end;
  uint32_t rows, events;
};

enum class Stop : uint8_t {
  more,     // the buffer ends within an event
  other,    // the last of `others` must be interpreted before scanning on
  refused,  // what follows is not an event that the scanner can read, or the end of the array
};

// The events of one buffer.
struct Block {
  Stop stop = Stop::more;
  size_t consumed = 0;  // bytes up to the end of the last event
  uint32_t events = 0;
  Column<int64_t> start_ns, end_ns;
  Column<uint32_t> site, track;
  Column<int32_t> args;      // code of the args without states; -1: none
  Column<uint8_t> has_args;  // whether the args had any member
  std::vector<SparseColumn> sparse;
  SparseColumn flow;  // ids of flow events
  std::vector<OtherEvent> others;
};

enum class OpScope : uint8_t { user, function, backward };

// What rows with the same site code have in common.
struct ScannedSite {
  uint32_t name, category;  // codes of JSON strings
  char phase;               // 'X', 'i' (any instant), 's' or 'f'
  OpScope scope;
  uint32_t state;  // two bits a state: 0 absent, 1 true, 2 false, 3 another value
};

class EventScanner {
 public:
  explicit EventScanner(Conventions conventions);

  // Scans events from the begin of a value, or of the comma after one (after_value).
  Block scan(std::string_view data, bool after_value);

  // Treats operators of this name (a JSON string) as backward functions from now on.
  void add_backward(std::string_view name) { mark_backward(texts_.code_of(name)); }
  // Codes of the names found behind the engine's prefix, in order.
  const std::vector<uint32_t>& backward_names() const noexcept { return backward_; }

  std::string_view text(uint32_t code) const noexcept { return texts_.text(code); }
  size_t texts() const noexcept { return texts_.size(); }
  const std::vector<ScannedSite>& sites() const noexcept { return sites_; }
  const uint64_t* track(uint32_t code) const noexcept { return tracks_.words(code); }  // pid, tid
  size_t tracks() const noexcept { return tracks_.size(); }
  size_t args() const noexcept { return args_.size(); }
  // Returns the args with this code as a JSON object.
  std::string args_text(uint32_t code) const;
  // Bytes of memory used, without blocks.
  size_t bytes() const noexcept;

 private:
  struct Span {
    std::string_view text;  // JSON; empty: absent
    bool escapes = false;
  };
  struct Member {
    uint32_t key;
    std::string_view value;
  };
  struct Event {
    Span phase, name, category, pid, tid, start, duration, id;
    bool repeats = false;  // a member occurs twice, or a name of one contains escapes
    bool has_args = false;
    uint32_t seen = 0;
  };

  Read read_event(Cursor& cursor);
  Read read_args(Cursor& cursor);
  Span* field(std::string_view key, uint32_t& bit);
  bool add_event(Block& block, bool& is_complete);
  void add_args(Block& block, uint32_t row, ScannedSite& site);
  OpScope scope_of(const Block& block, uint32_t row, uint32_t name);
  void mark_backward(uint32_t name);
  uint32_t site_code(const ScannedSite& site);

  Conventions conventions_;
  uint32_t first_list_, first_text_, first_state_, known_keys_;
  std::string op_category_;  // as JSON
  TextCodes texts_;
  TextCodes keys_;  // names of args as JSON strings without quotes; the conventions' come first
  WordCodes args_, tracks_, site_codes_;
  std::vector<ScannedSite> sites_;
  std::vector<uint8_t> is_backward_;  // by text code; may be shorter
  std::vector<uint32_t> backward_;
  Event event_;
  std::vector<Member> members_;
  std::vector<uint64_t> words_;
};

}  // namespace trace_json
FASTPROF_NAMESPACE_END
