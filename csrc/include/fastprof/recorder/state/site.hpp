// SPDX-License-Identifier: Apache-2.0
// Site: static descriptor of a place in the source. Records refer to it by address, so that the hot
// path copies no names.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/base/scope.hpp"

FASTPROF_NAMESPACE_BEGIN

// Kind of a record, stored in its site only. Values are ABI: append only.
enum class SiteKind : uint8_t {
  range = 0,        // {begin, end, site}
  async_range = 1,  // {begin, 0, site}; the end is a separate record (RecordTag::async_end)
  mark = 2,         // {time, 0, site}
  counter = 3,      // {time, value, site}; the value's type is arg_types[0]
  flow_begin = 4,   // {time, id, site}
  flow_end = 5,     // {time, id, site}
  // {time, ptr, site} + {bytes (signed), total allocated, total reserved | device << 48}.
  memory = 6,
  // {time, bytes requested, site} + {total allocated, total reserved, device << 48}.
  out_of_memory = 7,
  // {time, session id << 1 | enters, site}: from here on its thread is (not) in that session.
  session_membership = 8,
};

// Type of one argument word. Values are ABI: append only.
enum class ArgType : uint8_t {
  int64 = 0,
  uint64 = 1,
  float64 = 2,
  boolean = 3,
  string = 4,   // const char*: static, or interned as long as the record is needed
  pointer = 5,  // printed in hexadecimal
};

constexpr unsigned kMaxArgs = 12;

namespace site_flag {
constexpr uint32_t reclaimable = 1;  // a session name, freed between sessions: see intern.hpp
// Its records are appended ends alone: what they describe began before it could be recorded.
constexpr uint32_t end_only = 2;
}  // namespace site_flag

// One site: constant-initialised in the static storage of the annotated library, or interned
// (intern.hpp). Its address is its identity; the four low bits are free for RecordTag, the 16 high
// bits, which are 0, for the line of a call.
struct alignas(16) Site {
  uint32_t mask;  // category bits
  SiteKind kind;
  RecordScope scope;
  uint8_t arg_count;  // typed words that follow the slot, padded to units of three words
  uint8_t arg_units;  // (arg_count + 2) / 3; memory and out_of_memory: 1
  const char* name;
  const char* category_name;  // as shown in traces; "user_annotation", "cpu_op", ...
  const char* file;
  const char* function;
  uint32_t line;
  uint32_t color;  // 0xRRGGBB, 0 for none
  const char* const* arg_names;
  const ArgType* arg_types;
  int16_t device_type;  // memory sites: DeviceType as in PyTorch (0 CPU, 1 CUDA); else -1
  int16_t device_index;
  uint32_t flags;  // site_flag; 0 for static sites
};

// The category name of ranges that only wait (FASTPROF_WAIT).
constexpr const char* kWaitCategory = "wait";

// Tag in the low four bits of the slot word `site`. Values are ABI.
enum class RecordTag : uintptr_t {
  slot = 0,  // a record of the site's kind
  late = 1,  // end of a range whose slot was recycled: {stamp, begin, site} + {origin track, ending
             // track, end}
  cross_thread_end = 2,  // same layout: the range ended on another thread than it began
  async_end = 3,         // same layout: ends an async range
  detailed = 4,  // the slot, its argument units, then units whose first word is a DetailHeader
};

constexpr uintptr_t kTagMask = 15;
// The rest of the word is the site's address, and in the high 16 bits of a call that was made in
// Python code the line of that code; 0 and kNoCallLine: unknown.
constexpr unsigned kCallLineShift = 48;
constexpr uint32_t kNoCallLine = 0xFFFF;
constexpr uintptr_t kSiteMask = ((uintptr_t{1} << kCallLineShift) - 1) & ~kTagMask;

// First word of the variable part of a detailed record. `words` words follow it (padded with 0 to
// whole units): a sequence of blocks, each a DetailBlock word and block.count words.
struct DetailHeader {
  uint32_t words;
  uint32_t reserved;
};

// Type of a detail block. Values are ABI: append only.
enum class DetailType : uint16_t {
  counters_begin = 1,  // perf counter values at begin
  counters_end = 2,    // and at end (0 while the range is open)
  cpp_stack = 3,       // return addresses, innermost first
  python_stack = 4,    // id of a Python stack; in a Capture, index of its text in `strings` (frames
                       // as lines, innermost first)
  op = 5,              // sequence number, forward thread id, record function id, node id
  op_inputs = 6,       // encoded inputs
  json = 7,     // pointer to an interned JSON object text with extra arguments; in a Capture, index
                // into `strings`
  nothing = 8,  // a cancelled block: readers skip it
  modules = 9,  // pointer to an interned text, the modules that an op runs in; in a Capture, index
                // into `strings`
  op_inputs_ref = 10,  // in a Capture, in place of `op_inputs`: no words; `reserved` is the index
                       // in payload_words of an op_inputs block that several rows share
  overload = 11,  // pointer to an interned text, the overload of an operator; in a Capture, index
                  // into `strings`
};

// First word of a detail block; `count` words follow.
struct DetailBlock {
  DetailType type;
  uint16_t count;
  uint32_t reserved;
};

FASTPROF_NAMESPACE_END
