// SPDX-License-Identifier: Apache-2.0
#include "adapters/python/sample_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "adapters/python/stack_sampler.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

constexpr size_t kMaxTextBytes = 4096;
constexpr size_t kGrowthBytes = size_t{1} << 16;

// The payloads of records; texts follow those of codes and names.
struct CodePayload {
  int32_t first_line;
  uint16_t name_bytes, file_bytes;
};
struct NodePayload {
  int32_t parent;
  uint32_t code;
  int32_t line;
  uint32_t unused;
};
struct ThreadPayload {
  uint32_t tid, unused;
};
struct NamePayload {
  uint32_t thread, name_bytes;
};
struct RunPayload {
  int64_t first_ns, last_ns;
  uint32_t thread;
  int32_t node;
  uint32_t count, state;
};

void store_release(uint64_t* to, uint64_t value) noexcept {
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}

}  // namespace

SampleFile::SampleFile(double hz, size_t segment_bytes, int64_t max_ns, bool grows)
    : hz_(hz),
      segment_bytes_(segment_bytes / 8 * 8),
      max_ns_(max_ns),
      grows_(grows && !FASTPROF_DARWIN) {}

SampleFile::~SampleFile() {
  if (mapped_ != nullptr) ::munmap(mapped_, kSampleFilePage + kSampleSegments * segment_bytes_);
}

std::string SampleFile::open(const std::string& path) {
  const size_t size = kSampleFilePage + kSampleSegments * segment_bytes_;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return "cannot create " + path + ": " + std::strerror(errno);
  // Written, so that a full file system is an error here and no SIGBUS later.
  const std::vector<char> zeros(size_t{1} << 16);
  const size_t written_bytes = grows_ ? kSampleFilePage : size;
  int problem = 0;
  for (size_t at = 0; at < written_bytes && problem == 0;) {
    const ssize_t written = ::write(file, zeros.data(), std::min(zeros.size(), written_bytes - at));
    if (written > 0)
      at += static_cast<size_t>(written);
    else if (errno != EINTR)
      problem = errno;
  }
  if (problem == 0 && grows_ && ::ftruncate(file, static_cast<off_t>(size)) != 0) problem = errno;
  void* mapped = MAP_FAILED;
  if (problem == 0) {
    mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    problem = mapped == MAP_FAILED ? errno : 0;
  }
  ::close(file);
  if (problem != 0) {
    ::unlink(path.c_str());
    return "cannot write " + path + ": " + std::strerror(problem);
  }
  path_ = path;
  mapped_ = static_cast<char*>(mapped);
  auto* const header = reinterpret_cast<SampleFileHeader*>(mapped_);
  header->segment_bytes = segment_bytes_;
  header->hz = hz_;
  store_release(&header->magic, kSampleFileMagic);
  return {};
}

// Reserves the blocks of the current segment's first bytes, so that a store into them cannot fault.
// The file has no descriptor meanwhile: a program may close all that it does not know.
bool SampleFile::reserve(size_t used_bytes) noexcept {
  size_t& reserved = reserved_[current_];
  if (!grows_ || used_bytes <= reserved) return true;
  if (has_no_space_) return false;
  const size_t until = std::min(segment_bytes_, used_bytes + kGrowthBytes);
  const size_t begin = kSampleFilePage + current_ * segment_bytes_ + reserved;
  const int file = ::open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
#if !FASTPROF_DARWIN
  has_no_space_ = file < 0 || ::posix_fallocate(file, static_cast<off_t>(begin),
                                                static_cast<off_t>(until - reserved)) != 0;
#endif
  if (file >= 0) ::close(file);
  if (!has_no_space_) reserved = until;
  return !has_no_space_;
}

bool SampleFile::is_segment_over(int64_t now_ns) const noexcept {
  return number_ == 0 || is_full_ || now_ns - began_ns_ >= max_ns_;
}

void SampleFile::begin_segment(int64_t now_ns) noexcept {
  current_ = number_ % kSampleSegments;
  ++number_;
  used_ = 0;
  began_ns_ = now_ns;
  is_full_ = false;
  runs_.clear();
  SampleSegment& segment = reinterpret_cast<SampleFileHeader*>(mapped_)->segments[current_];
  store_release(&segment.used_bytes, 0);
  store_release(&segment.number, number_);
}

char* SampleFile::append(SampleRecord kind, size_t payload_bytes) noexcept {
  const size_t size = (sizeof(SampleRecordHead) + payload_bytes + 7) / 8 * 8;
  if (is_full_ || segment_bytes_ - used_ < size) {
    is_full_ = true;
    return nullptr;
  }
  if (!reserve(used_ + size)) return nullptr;
  char* const at = mapped_ + kSampleFilePage + current_ * segment_bytes_ + used_;
  const SampleRecordHead head{kind, static_cast<uint32_t>(size)};
  std::memcpy(at, &head, sizeof head);
  used_ += size;
  return at + sizeof head;
}

bool SampleFile::add_code(const std::string& name, const std::string& file,
                          int first_line) noexcept {
  const size_t name_bytes = std::min(name.size(), kMaxTextBytes);
  const size_t file_bytes = std::min(file.size(), kMaxTextBytes);
  const CodePayload payload{first_line, static_cast<uint16_t>(name_bytes),
                            static_cast<uint16_t>(file_bytes)};
  char* const to = append(SampleRecord::code, sizeof payload + name_bytes + file_bytes);
  if (to == nullptr) return false;
  std::memcpy(to, &payload, sizeof payload);
  std::memcpy(to + sizeof payload, name.data(), name_bytes);
  std::memcpy(to + sizeof payload + name_bytes, file.data(), file_bytes);
  return true;
}

bool SampleFile::add_node(const StackNode& node) noexcept {
  const NodePayload payload{node.parent, node.code, node.line, 0};
  char* const to = append(SampleRecord::node, sizeof payload);
  if (to != nullptr) std::memcpy(to, &payload, sizeof payload);
  return to != nullptr;
}

bool SampleFile::add_thread(uint32_t tid) noexcept {
  const ThreadPayload payload{tid, 0};
  char* const to = append(SampleRecord::thread, sizeof payload);
  if (to != nullptr) std::memcpy(to, &payload, sizeof payload);
  return to != nullptr;
}

bool SampleFile::add_name(uint32_t thread, const std::string& name) noexcept {
  const size_t name_bytes = std::min(name.size(), kMaxTextBytes);
  const NamePayload payload{thread, static_cast<uint32_t>(name_bytes)};
  char* const to = append(SampleRecord::name, sizeof payload + name_bytes);
  if (to == nullptr) return false;
  std::memcpy(to, &payload, sizeof payload);
  std::memcpy(to + sizeof payload, name.data(), name_bytes);
  return true;
}

bool SampleFile::add_run(const SampleRun& run) noexcept {
  const RunPayload payload{run.first_ns, run.last_ns, run.thread, run.node, run.count, run.state};
  char* const to = append(SampleRecord::run, sizeof payload);
  if (to == nullptr) return false;
  std::memcpy(to, &payload, sizeof payload);
  try {
    runs_.push_back(to);
  } catch (const std::bad_alloc&) {
    is_full_ = true;
    return false;
  }
  return true;
}

void SampleFile::update_run(size_t number, const SampleRun& run) noexcept {
  if (number >= runs_.size()) return;
  auto* const payload = reinterpret_cast<RunPayload*>(runs_[number]);
  payload->last_ns = run.last_ns;
  payload->count = run.count;
}

void SampleFile::commit(const SampleCounts& counts) noexcept {
  auto* const header = reinterpret_cast<SampleFileHeader*>(mapped_);
  header->ticks = counts.ticks;
  header->missed_ticks = counts.missed_ticks;
  header->torn_samples = counts.torn;
  header->samples_without_room = counts.no_room;
  header->sampler_cpu_ns = counts.cpu_ns;
  store_release(&header->segments[current_].used_bytes, used_);
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
