// SPDX-License-Identifier: Apache-2.0
// RowStore: shared store of the native trace readers. Interns the names, sites, tracks and args of
// rows; args are stored in compact code and converted to JSON on request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace_rows/args_store.hpp"
#include "core/trace_rows/codes.hpp"
#include "fastprof/capture/column.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_rows {

// Conventions of the traces that the readers depend on.
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

// Values of the rows that have one. Rows are numbered from the block's first.
struct SparseColumn {
  Column<uint32_t> rows;
  Column<int64_t> values;  // numbers, or codes of texts
};

// An event that the reader does not interpret: bytes [begin, end) of the buffer. `rows` and
// `events` precede it in the block.
struct OtherEvent {
  size_t begin, end;
  uint32_t rows, events;
};

enum class Stop : uint8_t {
  more = 0,     // the buffer ends within an event
  other = 1,    // the last of `others` must be interpreted before reading on
  refused = 2,  // what follows is the end of the events, or cannot be read by the reader
};

// The events of one buffer.
struct Block {
  Stop stop = Stop::more;
  size_t consumed = 0;  // bytes up to the end of the last event
  uint32_t events = 0;
  Column<int64_t> start_ns, end_ns;
  Column<uint32_t> site, track;
  Column<int32_t> args;  // code of the args without states; -1: none
  std::vector<SparseColumn> sparse;
  SparseColumn flow;  // payload words: ids of flow events, four words of each memory record
  std::vector<OtherEvent> others;
};

enum class OpScope : uint8_t { user = 0, function = 1, backward = 2 };

// Properties shared by the rows with the same site code.
struct ScannedSite {
  uint32_t name, category;  // codes of JSON strings
  char phase;  // 'X', 'i' (any instant), 's', 'f', 'm' (memory); 'B': a range that an end follows
  OpScope scope;
  // Two bits per state: 0 absent, 1 true, 2 false, 3 another value. Memory: type and index of the
  // device, 16 bits each.
  uint32_t state;
  // The caller's number of a source location; 0: none. Memory: code + 1 of the allocator's name.
  uint32_t place = 0;
};

// A member of an event's args: code of the name, and the value as JSON.
struct Member {
  uint32_t key;
  std::string_view value;
};

inline std::string quoted(std::string_view text) {
  return '"' + std::string(text) + '"';
}

// Not thread-safe while rows are added.
class RowStore {
 public:
  explicit RowStore(Conventions conventions);
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  const Conventions& conventions() const noexcept { return conventions_; }
  // Returns an empty block with the sparse columns of the conventions.
  Block new_block() const;

  uint32_t text_code(std::string_view json) { return texts_.code_of(json); }
  // Returns the code of an arg's name (JSON without quotes); kTooManyKeys beyond the limit.
  static constexpr uint32_t kTooManyKeys = UINT32_MAX;
  uint32_t key_code(std::string_view name);
  bool is_op(std::string_view category) const noexcept { return category == op_category_; }
  // Returns false if an arg with a column of its own is a number in an unusual form, which the
  // caller must read.
  bool are_plain(const std::vector<Member>& members) const noexcept;

  // Adds the args of the block's next row; the states among them go to site.state unless
  // keeps_states.
  void add_args(Block& block, const std::vector<Member>& members, ScannedSite& site,
                bool keeps_states = false);
  // Returns the scope of an operator of this name, the block's next row; call after add_args().
  OpScope scope_of(const Block& block, uint32_t name);
  uint32_t site_code(const ScannedSite& site);
  uint32_t track_code(int64_t pid, int64_t tid);

  // Treats operators of this name (a JSON string) as backward functions from now on.
  void add_backward(std::string_view name) { mark_backward(texts_.code_of(name)); }
  // Returns the codes of the names found after the engine's prefix, in order.
  const std::vector<uint32_t>& backward_names() const noexcept { return backward_; }

  std::string_view text(uint32_t code) const noexcept { return texts_.text(code); }
  size_t texts() const noexcept { return texts_.size(); }
  const std::vector<ScannedSite>& sites() const noexcept { return sites_; }
  const uint64_t* track(uint32_t code) const noexcept { return tracks_.words(code); }  // pid, tid
  size_t tracks() const noexcept { return tracks_.size(); }
  size_t args() const noexcept { return args_.size(); }
  // Returns the args with this code as a JSON object.
  std::string args_text(uint32_t code) const;
  // Returns the bytes of memory used, without blocks.
  size_t bytes() const noexcept;

 private:
  void mark_backward(uint32_t name);

  Conventions conventions_;
  uint32_t first_list_, first_text_, first_state_, known_keys_;
  std::string op_category_;  // as JSON
  TextCodes texts_;
  TextCodes keys_;  // names of args as JSON strings without quotes; the conventions' come first
  std::vector<uint32_t> next_key_;  // by code of a name: the name that followed it last
  uint32_t last_key_ = 0;
  ArgsStore args_;
  WordCodes tracks_, site_codes_;
  std::vector<ScannedSite> sites_;
  std::vector<uint8_t> is_backward_;  // by text code; may be shorter
  std::vector<uint32_t> backward_;
  std::vector<ArgsWord> words_;
};

}  // namespace trace_rows
FASTPROF_NAMESPACE_END
