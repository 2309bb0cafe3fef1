// SPDX-License-Identifier: Apache-2.0
// Layout of a backing file: the file in which the recorder's slabs lie when a session asks for it
// (docs/backing_file.md has the same as a table).
//
// The file is an array of segments of 2 MB. Segment 0 is the header, followed by a directory; each
// other segment is a slab (recorder/state/file_slab.hpp), a directory, or unused (zeroes). All
// numbers are little endian. A writer may be killed between any two instructions, so whatever a
// reader uses is either complete before it becomes reachable (`used` of a directory, `bank` of the
// knots, `state` of a session) or validated by itself (records: begin >= open_ticks).
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/base/drop_cause.hpp"
#include "fastprof/recorder/state/chunk.hpp"
#include "fastprof/recorder/state/clock.hpp"
#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr char kBackingMagic[16] = {'f', 'a', 's', 't', 'p', 'r', 'o', 'f',
                                    2,   's', 't', 'o', 'r', 'e', 13,  10};
constexpr uint32_t kBackingFormat = 1;
constexpr uint32_t kDirectoryMagic = 0x46504431;  // "1DPF"

// At offset 0. Written before the file has a name, except for what is marked (lock).
struct BackingHeader {
  char magic[16];
  uint32_t format;
  uint32_t header_bytes;
  uint16_t abi_major, abi_minor;
  uint32_t byte_order;  // 0x01020304
  uint64_t segment_bytes;
  uint64_t chunk_bytes;
  int64_t pid;
  int64_t parent_pid;
  // Start of the process since boot in 1/100 s, from /proc/self/stat; 0 if unknown. With the pid it
  // identifies the process among all since boot.
  uint64_t process_start;
  int64_t opened_monotonic_ns;  // CLOCK_MONOTONIC when the file was made
  int64_t unix_offset_ns;       // Unix time minus CLOCK_MONOTONIC, as used for all stamps
  int64_t node_id;              // -1: none
  uint32_t slow_clock;          // 1: stamps are CLOCK_MONOTONIC in 1/256 ns; 0: the tick counter
  uint32_t knot_bank;           // index of the valid KnotBank (lock)
  uint64_t segments;            // segments handed out, segment 0 included (lock)
  uint64_t
      fallback_slabs;      // slabs in anonymous memory instead, because the file had no room (lock)
  int32_t fallback_error;  // errno of the first such failure, 0 for none (lock)
  // Threads that went on in a chunk outside the file when it was opened: each may have written up
  // to 2700 records there (lock).
  uint32_t threads_outside;
  uint64_t names_lost;    // sites and texts for which the directory had no room (lock)
  char boot_id[40];       // /proc/sys/kernel/random/boot_id: tick counters compare within one boot
  char process_name[64];  // the kernel's name of the process
  uint64_t reserved[34];
};
static_assert(sizeof(BackingHeader) == 512, "the layout of backing files is ABI");

// One per session slot, at kFileSessionsAt. Changed under State::lock, except for `dropped`.
struct FileSession {
  uint64_t id;      // 0: unused; written last
  uint64_t t0, t1;  // ticks; t1 is UINT64_MAX while it runs
  uint32_t mask;
  uint8_t local, policy;
  uint8_t owner;  // the session that asked for the file
  uint8_t reserved0;
  uint64_t dropped[kMaxDropCauses];  // relaxed atomics
  uint64_t reserved[4];
};
static_assert(sizeof(FileSession) == 192, "the layout of backing files is ABI");

// The clock's knots, in two banks: a list that is not merely appended to is written to the other
// bank before `knot_bank` changes.
constexpr uint32_t kFileKnots = 500;
struct KnotBank {
  uint64_t count;  // written after its knots
  ClockKnot knots[kFileKnots];
};

constexpr size_t kFileSessionsAt = 4096;
constexpr size_t kKnotBanksAt = 16384;
constexpr size_t kFirstDirectoryAt = kChunkBytes;
static_assert(kFileSessionsAt + kMaxSessions * sizeof(FileSession) <= kKnotBanksAt &&
                  kKnotBanksAt + 2 * sizeof(KnotBank) <= kFirstDirectoryAt,
              "the header fits before the first directory");

// Header of a directory: at kFirstDirectoryAt of segment 0, and at the first byte of other
// directory segments. Entries follow it without gaps.
struct Directory {
  uint32_t magic;
  uint32_t header_bytes;
  uint64_t used;     // bytes of complete entries; stored after them
  uint64_t segment;  // its segment's position in the file
  uint64_t reserved[5];
};
static_assert(sizeof(Directory) == 64, "the layout of backing files is ABI");

enum class EntryType : uint16_t {
  site = 1,      // SiteEntry: the site at `address`; the latest entry of an address counts
  text = 2,      // the bytes of the text at `address`
  module = 3,    // path of the executable or library that is loaded at `address`
  metadata = 4,  // key, a zero byte, value
  stack = 5,     // frames of a Python stack, a line each, innermost first; `address`: its id
};

// First words of an entry. `bytes` includes them and is a multiple of 8.
struct DirectoryEntry {
  uint32_t bytes;
  EntryType type;
  uint16_t reserved;
  uint32_t text_bytes;  // of text, module, metadata and stack: length without padding
  uint32_t reserved1;
  uint64_t address;
};
static_assert(sizeof(DirectoryEntry) == 24, "the layout of backing files is ABI");

// Content of a site entry. It is followed by arg_count bytes of ArgType, then by the texts name,
// category, file, function and the argument names, each as uint32_t length and bytes.
struct SiteEntry {
  uint32_t mask;
  uint8_t kind, scope, arg_count, arg_units;
  uint32_t line, color;
  int16_t device_type, device_index;
  uint32_t reserved;
};
static_assert(sizeof(SiteEntry) == 24, "the layout of backing files is ABI");

// Whether a record of a site with these numbers has room for what its payload is read by.
constexpr bool payload_fits(SiteKind kind, unsigned arg_count, unsigned arg_units) noexcept {
  if (kind == SiteKind::memory || kind == SiteKind::out_of_memory) return arg_units == 1;
  if (kind == SiteKind::counter) return arg_count == 1;
  return arg_count <= arg_units * 3;
}

FASTPROF_NAMESPACE_END
