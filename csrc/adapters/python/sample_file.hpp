// SPDX-License-Identifier: Apache-2.0
// SampleFile: the last samples of a process in a file of fixed size that outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/macros.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

struct SampleCounts;
struct SampleRun;
struct StackNode;

// The file is a page with a SampleFileHeader, then two segments. A segment is read without the
// other one: its codes, nodes and threads are numbered from 0 in the order of their records. When
// the current segment is full or old enough, the older one is overwritten.
//
// A record begins with SampleRecordHead and is a multiple of 8 bytes long. Little-endian, as all
// supported machines are. Read by python/fastprof/decode/sample_file.py.
constexpr uint64_t kSampleFileMagic = 0x31504d4153465046u;  // "FPFSAMP1"
constexpr size_t kSampleFilePage = 4096;
constexpr size_t kSampleSegments = 2;

struct SampleSegment {
  uint64_t number;      // from 1; the greater one is the newer one; 0: unused
  uint64_t used_bytes;  // records up to here are complete
};

struct SampleFileHeader {
  uint64_t magic;
  uint64_t segment_bytes;
  double hz;
  SampleSegment segments[kSampleSegments];
  uint64_t ticks, missed_ticks, torn_samples, samples_without_room;
  int64_t sampler_cpu_ns;
};

// A name is that of a thread of the segment; the last one counts.
enum class SampleRecord : uint32_t { code = 1, node = 2, thread = 3, run = 4, name = 5 };

struct SampleRecordHead {
  SampleRecord kind;
  uint32_t size_bytes;
};

// Use from one thread.
class SampleFile {
 public:
  // max_ns: how long one segment records. grows: blocks of the file are reserved as they are used;
  // if that fails, the file keeps what it has, and nothing more is added.
  SampleFile(double hz, size_t segment_bytes, int64_t max_ns, bool grows);
  ~SampleFile();
  SampleFile(const SampleFile&) = delete;
  SampleFile& operator=(const SampleFile&) = delete;

  // Creates the file, with all its blocks unless it grows. Returns what failed; empty: nothing.
  std::string open(const std::string& path);

  // Whether the caller has to forget all numbers, and call begin_segment().
  bool is_segment_over(int64_t now_ns) const noexcept;
  void begin_segment(int64_t now_ns) noexcept;

  // Append a record; false if the segment is full, and then until the next segment.
  bool add_code(const std::string& name, const std::string& file, int first_line) noexcept;
  bool add_node(const StackNode& node) noexcept;
  bool add_thread(uint32_t tid) noexcept;
  bool add_name(uint32_t thread, const std::string& name) noexcept;
  bool add_run(const SampleRun& run) noexcept;
  // Stores the last time and count of a run of this segment.
  void update_run(size_t number, const SampleRun& run) noexcept;

  // Publishes what was appended.
  void commit(const SampleCounts& counts) noexcept;

 private:
  char* append(SampleRecord kind, size_t payload_bytes) noexcept;
  bool reserve(size_t used_bytes) noexcept;

  const double hz_;
  const size_t segment_bytes_;
  const int64_t max_ns_;
  const bool grows_;
  std::string path_;
  size_t reserved_[kSampleSegments]{};  // bytes of each segment, if the file grows
  bool has_no_space_ = false;
  char* mapped_ = nullptr;
  size_t current_ = 0;
  uint64_t number_ = 0;
  size_t used_ = 0;
  int64_t began_ns_ = 0;
  bool is_full_ = false;
  std::vector<char*> runs_;  // records of this segment
};

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
