// SPDX-License-Identifier: Apache-2.0
// copy_backing_file: a consistent copy of a backing file whose process is still writing it, without
// a word to that process: it neither stops nor notices.
//
// The copy shows the instant at which copying began. The chunk that a thread is writing ends at the
// last record that was complete when its reading began, and the sessions end at that instant, since
// chunks are read one after the other. A chunk that was handed on while it was read is left out,
// and so is what its thread wrote before: no thread has a hole in what is shown of it.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/platform/clock.hpp"
#include "fastprof/platform/common/files.hpp"
#include "fastprof/platform/process.hpp"
#include "fastprof/recorder/state/file_slab.hpp"
#include "fastprof/recorder/store/backing_file_layout.hpp"
#include "fastprof/recorder/store/calibration.hpp"

FASTPROF_NAMESPACE_BEGIN

// What copy_backing_file() did.
struct BackingCopy {
  uint64_t chunks = 0;         // copied
  uint64_t left_out = 0;       // chunks before one that was handed on meanwhile
  uint64_t written_bytes = 0;  // of the copy, holes left out
};

namespace copying {

class BackingCopier {
 public:
  BackingCopier(const std::string& from, const std::string& to) : from_path_(from), to_path_(to) {}
  ~BackingCopier() {
    if (from_ >= 0) ::close(from_);
    if (to_ >= 0) ::close(to_);
    if (to_ >= 0 && !complete_) ::unlink(to_path_.c_str());
  }
  BackingCopier(const BackingCopier&) = delete;
  BackingCopier& operator=(const BackingCopier&) = delete;

  BackingCopy copy(const std::vector<std::pair<std::string, std::string>>& metadata,
                   int64_t newest_ns) {
    from_ = ::open(from_path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (from_ < 0) fail_to_read();
    to_ = ::open(to_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (to_ < 0) fail_to_write();
    BackingHeader header;
    if (!read(0, &header, sizeof header) ||
        std::memcmp(header.magic, kBackingMagic, sizeof header.magic) != 0)
      raise<FormatError>(from_path_ + ": offset 0: not a backing file of fastprof");
    now_ = now_of_writer(header);
    if (now_ != 0 && newest_ns > 0) find_old_chunks(cut_ticks(header, newest_ns));
    // Records first, then what they refer to: a name is in the directory before its first record.
    each_segment([&](uint64_t at, uint32_t kind) {
      if (kind == kSlabMagic) copy_slab(at);
    });
    if (now_ != 0) drop_before_holes();
    uint64_t end = kSlabBytes;
    each_segment([&](uint64_t at, uint32_t kind) {
      if (kind == kDirectoryMagic) copy_directory(at);
      end = at + kSlabBytes;
    });
    copy_header(end / kSlabBytes);
    copy_directory(kFirstDirectoryAt);
    if (!metadata.empty()) write_metadata(end, metadata);
    if (::ftruncate(to_, static_cast<off_t>(end + (metadata.empty() ? 0 : kSlabBytes))) != 0)
      fail_to_write();
    complete_ = true;
    return done_;
  }

 private:
  struct CopiedChunk {
    uint32_t track_id;
    uint64_t sequence, open_ticks, at;
  };

  static bool newest_of_track_first(const CopiedChunk& a, const CopiedChunk& b) noexcept {
    return a.track_id != b.track_id ? a.track_id < b.track_id : a.sequence > b.sequence;
  }

  [[noreturn]] void fail_to_read() const {
    raise<IoError>("cannot read " + from_path_ + ": " + std::strerror(errno) +
                   "; start a new session or recorder if something has removed the file");
  }
  [[noreturn]] void fail_to_write() const {
    raise<IoError>("cannot write " + to_path_ + ": " + std::strerror(errno) +
                   "; choose another path, or make room");
  }

  bool read(uint64_t offset, void* out, uint64_t bytes) const noexcept {
    return platform::read_at(from_, offset, out, bytes);
  }

  void write(uint64_t offset, const void* bytes, uint64_t size) {
    const auto* from = static_cast<const char*>(bytes);
    done_.written_bytes += size;
    while (size != 0) {
      const ssize_t put = ::pwrite(to_, from, size, static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) fail_to_write();
      from += put;
      offset += static_cast<uint64_t>(put);
      size -= static_cast<uint64_t>(put);
    }
  }

  // Calls visit(offset, first word) for every segment behind the header that has contents.
  template <typename Visit>
  void each_segment(Visit visit) {
    struct stat facts;
    if (::fstat(from_, &facts) != 0) fail_to_read();
    for (uint64_t at = kSlabBytes; at < static_cast<uint64_t>(facts.st_size); at += kSlabBytes) {
      const off_t data = ::lseek(from_, static_cast<off_t>(at), SEEK_DATA);
      if (data < 0 && errno == ENXIO) break;
      if (data >= 0) at = static_cast<uint64_t>(data) / kSlabBytes * kSlabBytes;
      uint32_t magic = 0;
      if (read(at, &magic, sizeof magic)) visit(at, magic);
    }
  }

  // The writer's clock now, in ticks; 0 if it has ended.
  static uint64_t now_of_writer(const BackingHeader& header) noexcept {
    char boot_id[sizeof header.boot_id];
    platform::read_boot_id(boot_id, sizeof boot_id);
    if (std::strncmp(boot_id, header.boot_id, sizeof boot_id) != 0 ||
        platform::process_start(static_cast<pid_t>(header.pid)) != header.process_start)
      return 0;
    if (header.slow_clock != 0) return static_cast<uint64_t>(platform::monotonic_ns()) << 8;
    return take_clock_knot(1).ticks;
  }

  // The writer's clock `newest_ns` ago, in ticks; 0 if the rate of its clock is not known.
  uint64_t cut_ticks(const BackingHeader& header, int64_t newest_ns) const noexcept {
    uint64_t past = static_cast<uint64_t>(newest_ns) << 8;
    if (header.slow_clock == 0) {
      KnotBank bank;
      const uint64_t at = kKnotBanksAt + (header.knot_bank & 1) * sizeof bank;
      if (!read(at, &bank, sizeof bank) || bank.count == 0) return 0;
      const ClockKnot& first = bank.knots[0];
      const ClockKnot now = take_clock_knot();
      if (now.ticks <= first.ticks || now.monotonic_ns <= first.monotonic_ns) return 0;
      past = static_cast<uint64_t>(static_cast<double>(newest_ns) *
                                   static_cast<double>(now.ticks - first.ticks) /
                                   static_cast<double>(now.monotonic_ns - first.monotonic_ns));
    }
    return now_ > past ? now_ - past : 0;
  }

  // Finds the chunks whose thread had begun its next chunk before `cut`.
  void find_old_chunks(uint64_t cut) {
    std::vector<CopiedChunk> chunks;
    each_segment([&](uint64_t at, uint32_t kind) {
      for (uint64_t i = 1; kind == kSlabMagic && i <= kChunksPerSlab; ++i) {
        Chunk header;
        const uint64_t chunk_at = at + i * kChunkBytes;
        if (read(chunk_at, &header, sizeof header) && header.magic == kChunkMagic &&
            (header.place == ChunkPlace::current || header.place == ChunkPlace::full))
          chunks.push_back({header.track_id, header.sequence, header.open_ticks, chunk_at});
      }
    });
    std::sort(chunks.begin(), chunks.end(), newest_of_track_first);
    for (size_t i = 1; i < chunks.size(); ++i)
      if (chunks[i].track_id == chunks[i - 1].track_id && chunks[i - 1].open_ticks < cut)
        old_.push_back(chunks[i]);
    std::sort(old_.begin(), old_.end(),
              [](const CopiedChunk& a, const CopiedChunk& b) { return a.at < b.at; });
  }

  // Whether `at` still holds the chunk that find_old_chunks() saw there.
  bool is_old(uint64_t at, const Chunk& header) const noexcept {
    const auto found = std::lower_bound(
        old_.begin(), old_.end(), at,
        [](const CopiedChunk& chunk, uint64_t offset) { return chunk.at < offset; });
    return found != old_.end() && found->at == at && found->open_ticks == header.open_ticks;
  }

  void copy_slab(uint64_t at) {
    for (size_t i = 1; i <= kChunksPerSlab; ++i) copy_chunk(at + i * kChunkBytes);
    // After the chunks: a label of a thread that came since does not fit the chunk's track.
    std::vector<char> slab(sizeof(FileSlab));
    if (read(at, slab.data(), slab.size())) write(at, slab.data(), slab.size());
  }

  void copy_chunk(uint64_t at) {
    // Again while the next thread continues in a chunk (recorder/state/thread_end.hpp).
    for (int tries = 0; tries < 8 && !try_chunk(at); ++tries) {
    }
  }

  // Returns whether the chunk is done with: copied, or not to be copied.
  bool try_chunk(uint64_t at) {
    Chunk header, after;
    if (!read(at, &header, sizeof header) || header.magic != kChunkMagic) return true;
    if (header.place != ChunkPlace::current && header.place != ChunkPlace::full) return true;
    if (header.open_ticks >> 63 != 0) return true;  // being handed out
    if (is_old(at, header)) return true;
    if (!read(at, first_.data(), kChunkBytes)) return true;
    // What the first reading saw as begun, the second sees complete. Partner: the release store of
    // `begin` in begin_fast(), which follows the record's other words. In a full chunk, all are.
    // The third shows that no record of the second was given back while it was read (short ops).
    const bool written = header.place == ChunkPlace::current;
    if (written && !(read(at, second_.data(), kChunkBytes) && read(at, third_.data(), kChunkBytes)))
      return true;
    if (!read(at, &after, sizeof after)) return true;
    if (after.gen != header.gen || after.open_ticks != header.open_ticks ||
        after.place == ChunkPlace::free)
      return true;
    if (after.track_id != header.track_id || after.part_bytes != header.part_bytes) return false;
    if (written) cut_new_records(header.open_ticks);
    std::vector<char>& chunk = written ? second_ : first_;
    std::memcpy(chunk.data(), &header, sizeof header);
    write(at, chunk.data(), kChunkBytes);
    ++done_.chunks;
    copied_.push_back(CopiedChunk{header.track_id, header.sequence, header.open_ticks, at});
    return true;
  }

  // Removes from the copy what a thread wrote before a chunk that is missing: chunks of a track are
  // numbered without a gap.
  void drop_before_holes() {
    std::sort(copied_.begin(), copied_.end(), newest_of_track_first);
    const Chunk nothing{};
    bool whole = false;
    for (size_t i = 0; i < copied_.size(); ++i) {
      const CopiedChunk& chunk = copied_[i];
      const CopiedChunk* newer =
          i != 0 && copied_[i - 1].track_id == chunk.track_id ? &copied_[i - 1] : nullptr;
      // What was begun since is not shown, so a hole there does not matter.
      if (newer == nullptr || newer->open_ticks >= now_) whole = true;
      if (newer != nullptr && newer->open_ticks < now_ && newer->sequence != chunk.sequence + 1)
        whole = false;
      if (whole) continue;
      write(chunk.at, &nothing, sizeof nothing);
      ++done_.left_out;
    }
  }

  // Ends the records of `second_` before the first that `first_` or `third_` does not have: the
  // first unit that has become another stamp. (Words of a payload change as well, when a range
  // ends.)
  void cut_new_records(uint64_t open_ticks) noexcept {
    for (size_t at = sizeof(Chunk); at + sizeof(Slot) <= kChunkBytes; at += sizeof(Slot)) {
      uint64_t before, now, later;
      std::memcpy(&before, &first_[at], sizeof before);
      std::memcpy(&now, &second_[at], sizeof now);
      std::memcpy(&later, &third_[at], sizeof later);
      if (now < open_ticks || (before == now && now == later)) continue;
      std::memset(&second_[at], 0, sizeof now);  // Slot::begin: no record
      return;
    }
  }

  void copy_directory(uint64_t at) {
    Directory directory;
    if (!read(at, &directory, sizeof directory)) return;
    // `used` was read first, so that the entries before it are complete.
    const uint64_t room = kSlabBytes - at % kSlabBytes - sizeof directory;
    std::vector<char> entries(std::min(directory.used, room));
    if (!read(at + sizeof directory, entries.data(), entries.size())) return;
    write(at, &directory, sizeof directory);
    write(at + sizeof directory, entries.data(), entries.size());
  }

  // segments: of the copy. Its writer may have appended some since; a file that ended cut stays
  // cut.
  void copy_header(uint64_t segments) {
    std::vector<char> bytes(kFirstDirectoryAt);
    BackingHeader header;
    // The bank of knots that the header names is complete unless the banks changed twice meanwhile.
    for (int tries = 0; tries < 8; ++tries) {
      if (!read(0, bytes.data(), bytes.size()) || !read(0, &header, sizeof header))
        raise<FormatError>(from_path_ + ": offset 0: too short for a backing file");
      if (header.knot_bank == reinterpret_cast<BackingHeader*>(bytes.data())->knot_bank) break;
    }
    auto* sessions = reinterpret_cast<FileSession*>(bytes.data() + kFileSessionsAt);
    for (size_t i = 0; now_ != 0 && i < kMaxSessions; ++i)
      if (sessions[i].id != 0 && sessions[i].t1 == UINT64_MAX && sessions[i].t0 < now_)
        sessions[i].t1 = now_;
    if (now_ != 0) reinterpret_cast<BackingHeader*>(bytes.data())->segments = segments;
    write(0, bytes.data(), bytes.size());
  }

  void write_metadata(uint64_t at,
                      const std::vector<std::pair<std::string, std::string>>& metadata) {
    Directory directory{};
    directory.magic = kDirectoryMagic;
    directory.header_bytes = sizeof directory;
    directory.segment = at / kSlabBytes;
    std::string entries;
    for (const auto& [key, value] : metadata) {
      const std::string text = key + '\0' + value;
      DirectoryEntry entry{};
      entry.type = EntryType::metadata;
      entry.text_bytes = static_cast<uint32_t>(text.size());
      entry.bytes = static_cast<uint32_t>((sizeof entry + text.size() + 7) / 8 * 8);
      if (entries.size() + entry.bytes > kSlabBytes - sizeof directory)
        raise<ValueError>("the metadata of a copy are limited to 2 MB; shorten them");
      entries.append(reinterpret_cast<const char*>(&entry), sizeof entry);
      entries += text;
      entries.resize(entries.size() + entry.bytes - sizeof entry - text.size());
    }
    directory.used = entries.size();
    write(at, &directory, sizeof directory);
    write(at + sizeof directory, entries.data(), entries.size());
  }

  const std::string from_path_, to_path_;
  uint64_t now_ = 0;  // when copying began; 0: nobody writes the file
  std::vector<CopiedChunk> copied_, old_;
  int from_ = -1, to_ = -1;
  bool complete_ = false;
  BackingCopy done_;
  std::vector<char> first_ = std::vector<char>(kChunkBytes);
  std::vector<char> second_ = std::vector<char>(kChunkBytes);
  std::vector<char> third_ = std::vector<char>(kChunkBytes);
};

}  // namespace copying

// Copies the backing file `from` to the new file `to`, which recover() reads. The process that
// writes `from` may run. metadata: (key, value) pairs that are added to Recovered::metadata.
// newest_ns: if it runs, chunks that its threads filled earlier than so long ago are left out; 0:
// none. What a range encloses stays although the range began in a chunk that is left out. Any
// thread. Throws IoError if a file cannot be read or written (nothing is left of `to`), FormatError
// if `from` is no backing file.
inline BackingCopy copy_backing_file(
    const std::string& from, const std::string& to,
    const std::vector<std::pair<std::string, std::string>>& metadata = {}, int64_t newest_ns = 0) {
  copying::BackingCopier copier(from, to);
  return copier.copy(metadata, newest_ns);
}

FASTPROF_NAMESPACE_END
