// SPDX-License-Identifier: Apache-2.0
// BackingReader: reads the parts of a backing file (recorder/store/backing_file_layout.hpp). The
// file is untrusted: every offset, length and number is checked. It is read, not mapped, because
// truncating a mapped file kills the process with SIGBUS.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/platform/common/files.hpp"
#include "fastprof/recorder/state/file_slab.hpp"
#include "fastprof/recorder/store/backing_file_layout.hpp"

FASTPROF_NAMESPACE_BEGIN

// One chunk of records in the file.
struct FileChunk {
  Chunk header;
  uint64_t offset;      // of the chunk in the file
  uint64_t generation;  // of its slab
  std::string thread;   // name of the thread that wrote it
};

// A site of the file.
struct FileSite {
  SiteInfo info;
  uint8_t arg_units = 0;
};

// Everything in a file except for the records. Not thread-safe.
class BackingReader {
 public:
  // Opens a file and reads all but the records. Throws IoError if it cannot be read, FormatError if
  // it is no backing file, is damaged beyond use, or is larger than `max_bytes`.
  BackingReader(const std::string& path, uint64_t max_bytes) : path_(path) {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd_ < 0)
      raise<IoError>("cannot read " + path + ": " + std::strerror(errno) + "; check its name");
    struct stat facts;
    if (::fstat(fd_, &facts) != 0 || !S_ISREG(facts.st_mode)) {
      close();
      raise<IoError>("cannot read " + path +
                     ": it is not a regular file; pass the path of a backing file");
    }
    size_ = static_cast<uint64_t>(facts.st_size);
    // The length counts holes too; what was written decides.
    if (static_cast<uint64_t>(facts.st_blocks) * 512 > max_bytes) {
      close();
      raise<FormatError>(path + ": larger than the limit of " + std::to_string(max_bytes) +
                         " bytes; pass a higher one");
    }
#if FASTPROF_EXCEPTIONS
    try {
      read_all();
    } catch (...) {
      close();
      throw;
    }
#else
    read_all();
#endif
  }
  ~BackingReader() {
    close();
  }
  BackingReader(const BackingReader&) = delete;
  BackingReader& operator=(const BackingReader&) = delete;

  const BackingHeader& header() const noexcept {
    return header_;
  }
  const std::vector<FileSession>& sessions() const noexcept {
    return sessions_;
  }
  const std::vector<ClockKnot>& knots() const noexcept {
    return knots_;
  }
  const std::vector<FileChunk>& chunks() const noexcept {
    return chunks_;
  }
  const std::unordered_map<uint64_t, FileSite>& sites() const noexcept {
    return sites_;
  }
  // Python stacks by id.
  const std::unordered_map<uint64_t, std::string>& stacks() const noexcept {
    return stacks_;
  }
  const std::unordered_map<uint64_t, std::string>& texts() const noexcept {
    return texts_;
  }
  const std::vector<std::pair<uint64_t, std::string>>& modules() const noexcept {
    return modules_;
  }
  const std::vector<std::pair<std::string, std::string>>& metadata() const noexcept {
    return metadata_;
  }
  // Segments, chunks and directory entries whose header is damaged, and segments that are cut off.
  uint64_t damaged() const noexcept {
    return damaged_;
  }

  // Reads the bytes of a chunk into `out`; false if the file ends before.
  bool read_chunk(const FileChunk& chunk, void* out) const noexcept {
    return read(chunk.offset, out, kChunkBytes);
  }

 private:
  void close() noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  bool read(uint64_t offset, void* out, uint64_t bytes) const noexcept {
    return platform::read_at(fd_, offset, out, bytes);
  }

  [[noreturn]] void fail(uint64_t offset, const char* what) const {
    raise<FormatError>(path_ + ": offset " + std::to_string(offset) + ": " + what);
  }

  void read_all() {
    read_header();
    read_knots();
    sessions_.resize(kMaxSessions);
    if (!read(kFileSessionsAt, sessions_.data(), kMaxSessions * sizeof(FileSession)))
      fail(kFileSessionsAt, "the table of sessions lies beyond the end of the file");
    read_directory(0, kFirstDirectoryAt);
    const uint64_t segments = (size_ + kSlabBytes - 1) / kSlabBytes;
    for (uint64_t segment = 1; segment < segments; ++segment) {
      const uint64_t data = next_data(segment * kSlabBytes);
      if (data == UINT64_MAX) break;
      segment = data / kSlabBytes;  // skips holes: a sparse file may be long
      read_segment(segment);
    }
    // The file is extended before its header counts the segment, so fewer mean that it was cut.
    const uint64_t most = std::min(header_.segments, uint64_t{1} << 32);
    const uint64_t whole = size_ / kSlabBytes;
    if (most > whole) damaged_ += most - whole;
  }

  // Offset of the first byte at or behind `offset` that is not in a hole; UINT64_MAX: none.
  uint64_t next_data(uint64_t offset) const noexcept {
    const off_t at = ::lseek(fd_, static_cast<off_t>(offset), SEEK_DATA);
    if (at >= 0) return static_cast<uint64_t>(at);
    return errno == ENXIO ? UINT64_MAX : offset;  // the file system does not report holes
  }

  void read_header() {
    if (!read(0, &header_, sizeof header_)) fail(0, "too short for a backing file");
    if (std::memcmp(header_.magic, kBackingMagic, sizeof header_.magic) != 0)
      fail(0, "not a backing file of fastprof (wrong magic number)");
    if (header_.format != kBackingFormat || header_.byte_order != 0x01020304 ||
        header_.abi_major != FASTPROF_ABI_MAJOR)
      fail(16,
           "written by an incompatible version of fastprof or on another kind of machine; read it "
           "with the version that wrote it");
    if (header_.header_bytes < sizeof header_ || header_.segment_bytes != kSlabBytes ||
        header_.chunk_bytes != kChunkBytes)
      fail(20, "the header's sizes are invalid");
    header_.boot_id[sizeof header_.boot_id - 1] = 0;
    header_.process_name[sizeof header_.process_name - 1] = 0;
    header_.unix_offset_ns = bounded(header_.unix_offset_ns);
  }

  // Limits a time in ns to 146 years either way, so that sums cannot overflow.
  static int64_t bounded(int64_t ns) noexcept {
    constexpr int64_t kMost = int64_t{1} << 62;
    return ns > kMost ? kMost : ns < -kMost ? -kMost : ns;
  }

  void read_knots() {
    const uint64_t bank = header_.knot_bank & 1;
    const uint64_t at = kKnotBanksAt + bank * sizeof(KnotBank);
    std::vector<KnotBank> read_bank(1);
    if (!read(at, read_bank.data(), sizeof(KnotBank)))
      fail(at, "the clock's knots lie beyond the end of the file");
    const uint64_t count = std::min<uint64_t>(read_bank[0].count, kFileKnots);
    for (uint64_t i = 0; i < count; ++i) {
      ClockKnot knot = read_bank[0].knots[i];
      knot.monotonic_ns = bounded(knot.monotonic_ns);
      knot.suspended_ns = bounded(knot.suspended_ns) / 4;
      if (knot.bracket_ticks < 0 || knot.bracket_ticks > 1 << 30) knot.bracket_ticks = 1 << 30;
      if (knot.ticks >> 63 != 0 || knot.monotonic_ns < 0 || !plausible(knot)) {
        ++damaged_;
        continue;
      }
      knots_.push_back(knot);
    }
  }

  // Whether the slope from the last knot is possible: between 1/1000 and 1000 ns per tick.
  bool plausible(const ClockKnot& knot) const noexcept {
    if (knots_.empty()) return true;
    const ClockKnot& last = knots_.back();
    if (knot.ticks <= last.ticks || knot.monotonic_ns <= last.monotonic_ns) return false;
    const double slope = static_cast<double>(knot.monotonic_ns - last.monotonic_ns) /
                         static_cast<double>(knot.ticks - last.ticks);
    return slope >= 1e-3 && slope <= 1e3;
  }

  void read_segment(uint64_t segment) {
    const uint64_t at = segment * kSlabBytes;
    std::vector<char> bytes(sizeof(FileSlab));
    if (!read(at, bytes.data(), bytes.size())) return;  // the last segment was cut off
    uint32_t magic;
    std::memcpy(&magic, bytes.data(), sizeof magic);
    if (magic == kDirectoryMagic) return read_directory(at, 0);
    if (magic == 0) return;  // reserved, not written yet
    FileSlab slab;
    std::memcpy(static_cast<void*>(&slab), bytes.data(), sizeof slab);
    if (magic != kSlabMagic || slab.slab.header_bytes != sizeof(FileSlab)) {
      ++damaged_;
      return;
    }
    for (size_t i = 0; i < kChunksPerSlab; ++i) {
      FileChunk chunk{};
      chunk.offset = at + (i + 1) * kChunkBytes;
      if (!read(chunk.offset, &chunk.header, sizeof chunk.header)) return;
      const Chunk& header = chunk.header;
      if (header.magic == 0) continue;  // not handed out yet
      if (header.magic != kChunkMagic || header.header_bytes != sizeof(Chunk)) {
        ++damaged_;
        continue;
      }
      if (header.place != ChunkPlace::current && header.place != ChunkPlace::full) continue;
      if (header.open_ticks >> 63 != 0) continue;  // being handed out
      if (header.track_id == 0) {
        ++damaged_;
        continue;
      }
      const ChunkLabel& label = slab.labels[i];
      if (label.track_id == header.track_id)
        chunk.thread.assign(label.name, std::min<size_t>(label.name_length, sizeof label.name - 1));
      chunk.generation = slab.generation;
      chunks_.push_back(std::move(chunk));
    }
  }

  void read_directory(uint64_t segment_at, uint64_t directory_at) {
    const uint64_t at = segment_at + directory_at;
    Directory directory;
    if (!read(at, &directory, sizeof directory)) return;
    const uint64_t room = kSlabBytes - directory_at - sizeof directory;
    if (directory.magic != kDirectoryMagic || directory.header_bytes != sizeof directory) {
      ++damaged_;
      return;
    }
    std::vector<char> bytes(std::min(directory.used, room));
    if (!read(at + sizeof directory, bytes.data(), bytes.size())) {
      ++damaged_;
      return;
    }
    for (size_t next = 0; bytes.size() - next >= sizeof(DirectoryEntry);) {
      DirectoryEntry entry;
      std::memcpy(&entry, bytes.data() + next, sizeof entry);
      if (entry.bytes < sizeof entry || entry.bytes % 8 != 0 || entry.bytes > bytes.size() - next) {
        ++damaged_;  // the length is wrong: what follows cannot be found
        return;
      }
      if (!read_entry(entry, bytes.data() + next + sizeof entry, entry.bytes - sizeof entry))
        ++damaged_;
      next += entry.bytes;
    }
  }

  bool read_entry(const DirectoryEntry& entry, const char* content, size_t size) {
    if (entry.type == EntryType::site) return read_site(entry.address, content, size);
    if (entry.text_bytes > size) return false;
    std::string text(content, entry.text_bytes);
    switch (entry.type) {
      case EntryType::text:
        texts_[entry.address] = std::move(text);
        return true;
      case EntryType::stack:
        stacks_[entry.address] = std::move(text);
        return true;
      case EntryType::module:
        modules_.emplace_back(entry.address, std::move(text));
        return true;
      case EntryType::metadata: {
        const size_t zero = text.find('\0');
        if (zero == std::string::npos) return false;
        metadata_.emplace_back(text.substr(0, zero), text.substr(zero + 1));
        return true;
      }
      default:
        return true;  // of a newer version
    }
  }

  bool read_site(uint64_t address, const char* content, size_t size) {
    SiteEntry entry;
    if (size < sizeof entry) return false;
    std::memcpy(&entry, content, sizeof entry);
    const char* end = content + size;
    content += sizeof entry;
    if (entry.kind > static_cast<uint8_t>(SiteKind::session_membership) ||
        entry.scope >= static_cast<uint8_t>(RecordScope::NUM_SCOPES) ||
        entry.arg_count > kMaxArgs || entry.arg_units > (kMaxArgs + 2) / 3)
      return false;
    const auto kind = static_cast<SiteKind>(entry.kind);
    if (!payload_fits(kind, entry.arg_count, entry.arg_units)) return false;
    if (static_cast<size_t>(end - content) < entry.arg_count) return false;
    FileSite site;
    site.arg_units = entry.arg_units;
    SiteInfo& info = site.info;
    info.mask = entry.mask;
    info.kind = kind;
    info.scope = static_cast<RecordScope>(entry.scope);
    info.line = entry.line;
    info.color = entry.color;
    info.device_type = entry.device_type;
    info.device_index = entry.device_index;
    for (unsigned i = 0; i < entry.arg_count; ++i) {
      const auto type = static_cast<uint8_t>(*content++);
      if (type > static_cast<uint8_t>(ArgType::pointer)) return false;
      info.arg_types.push_back(static_cast<ArgType>(type));
    }
    info.arg_names.resize(entry.arg_count);
    const auto text = [&content, end](std::string& to) {
      uint32_t length;
      if (static_cast<size_t>(end - content) < sizeof length) return false;
      std::memcpy(&length, content, sizeof length);
      content += sizeof length;
      if (static_cast<size_t>(end - content) < length) return false;
      to.assign(content, length);
      content += length;
      return true;
    };
    if (!text(info.name) || !text(info.category) || !text(info.file) || !text(info.function))
      return false;
    for (std::string& name : info.arg_names)
      if (!text(name)) return false;
    sites_[address] = std::move(site);
    return true;
  }

  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
  uint64_t damaged_ = 0;
  BackingHeader header_{};
  std::vector<FileSession> sessions_;
  std::vector<ClockKnot> knots_;
  std::vector<FileChunk> chunks_;
  std::unordered_map<uint64_t, FileSite> sites_;
  std::unordered_map<uint64_t, std::string> texts_;
  std::unordered_map<uint64_t, std::string> stacks_;
  std::vector<std::pair<uint64_t, std::string>> modules_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

FASTPROF_NAMESPACE_END
