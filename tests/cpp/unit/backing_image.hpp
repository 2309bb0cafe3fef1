// SPDX-License-Identifier: Apache-2.0
// Backing files made by hand, with exact stamps and any damage. Without knots, a tick is a
// nanosecond of the monotonic clock.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "backing_file_checks.hpp"

namespace backing_image {

namespace fp = fastprof;

constexpr uint64_t kT0 = 1000;
constexpr uint64_t kOpened = 100;  // when the chunks were handed out

// A directory: entries, one behind the other.
class Entries {
 public:
  // Appends an entry; `size`: what it says that it takes, if not 0.
  void add(fp::EntryType type, uint64_t address, const std::string& content, uint32_t text_bytes,
           uint32_t size = 0) {
    std::string padded = content;
    padded.resize((content.size() + 7) / 8 * 8);
    fp::DirectoryEntry entry{};
    entry.bytes = size != 0 ? size : static_cast<uint32_t>(sizeof entry + padded.size());
    entry.type = type;
    entry.text_bytes = text_bytes;
    entry.address = address;
    bytes.append(reinterpret_cast<const char*>(&entry), sizeof entry);
    bytes += padded;
  }
  void text(fp::EntryType type, uint64_t address, const std::string& content) {
    add(type, address, content, static_cast<uint32_t>(content.size()));
  }

  std::string bytes;
};

// What a site's entry contains; arguments are named "a0", "a1", ...
struct SiteParts {
  fp::SiteEntry entry{};
  std::vector<uint8_t> types;
  std::vector<std::string> texts{"name", "category", "file", "function"};

  explicit SiteParts(const std::string& name = "site", std::vector<uint8_t> arg_types = {})
      : types(std::move(arg_types)) {
    texts[0] = name;
    entry.mask = fp::category::user;
    entry.scope = static_cast<uint8_t>(fp::RecordScope::USER_SCOPE);
    entry.arg_count = static_cast<uint8_t>(types.size());
    entry.arg_units = static_cast<uint8_t>((types.size() + 2) / 3);
    entry.device_type = entry.device_index = -1;
    for (size_t i = 0; i < types.size(); ++i) texts.push_back("a" + std::to_string(i));
  }
  std::string content() const {
    std::string all(reinterpret_cast<const char*>(&entry), sizeof entry);
    for (const uint8_t type : types) all.push_back(static_cast<char>(type));
    for (const std::string& text : texts) {
      const auto length = static_cast<uint32_t>(text.size());
      all.append(reinterpret_cast<const char*>(&length), sizeof length);
      all += text;
    }
    return all;
  }
};

struct Image {
  fp::BackingHeader header{};
  std::vector<fp::FileSession> sessions = std::vector<fp::FileSession>(fp::kMaxSessions);
  std::vector<fp::KnotBank> banks = std::vector<fp::KnotBank>(2);
  fp::Directory directory{};
  Entries entries;
  fp::FileSlab slab{};
  struct FakeChunk {
    fp::Chunk header{};
    std::vector<fp::Slot> slots;
  };
  std::vector<FakeChunk> chunks;

  Image() {
    std::memcpy(header.magic, fp::kBackingMagic, sizeof header.magic);
    header.format = 1;
    header.header_bytes = sizeof header;
    header.abi_major = FASTPROF_ABI_MAJOR;
    header.byte_order = 0x01020304;
    header.segment_bytes = 2 << 20;
    header.chunk_bytes = 1 << 16;
    header.pid = 77;
    header.node_id = -1;
    sessions[0].id = 5;
    sessions[0].t0 = kT0;
    sessions[0].t1 = UINT64_MAX;
    sessions[0].mask = fp::category::all;
    sessions[0].owner = 1;
    directory.magic = 0x46504431;
    directory.header_bytes = 64;
    slab.slab.magic = 0x46505331;
    slab.slab.header_bytes = sizeof slab;
    slab.generation = 1;
  }

  void site(uint64_t address, const SiteParts& parts) {
    entries.add(fp::EntryType::site, address, parts.content(), 0);
  }
  // Adds a chunk that its thread still writes; records are added to the last one.
  fp::Chunk& chunk(uint32_t track, uint64_t sequence = 0, const std::string& thread = "") {
    fp::ChunkLabel& label = slab.labels[chunks.size()];
    label.track_id = track;
    label.name_length = static_cast<uint32_t>(thread.size());
    std::memcpy(label.name, thread.data(), thread.size());
    chunks.emplace_back();
    fp::Chunk& made = chunks.back().header;
    made.magic = 0x46504331;
    made.header_bytes = 128;
    made.track_id = track;
    made.tid = 100 + track;
    made.sequence = sequence;
    made.open_ticks = kOpened;
    made.place = fp::ChunkPlace::current;
    return made;
  }
  void unit(uint64_t a, uint64_t b, uint64_t c) {
    chunks.back().slots.push_back({a, b, static_cast<uintptr_t>(c)});
  }
  // A record of the site at `address`.
  void record(uint64_t address, uint64_t begin, uint64_t second,
              fp::RecordTag tag = fp::RecordTag::slot) {
    unit(begin, second, address | static_cast<uint64_t>(tag));
  }

  // Writes the file, which ends behind the slab, or at `size`.
  void write(const std::string& path, uint64_t size = 4 << 20) const {
    ::unlink(path.c_str());
    const int fd = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    const auto put = [fd](uint64_t at, const void* bytes, size_t count) {
      CHECK_EQ(::pwrite(fd, bytes, count, static_cast<off_t>(at)), static_cast<ssize_t>(count));
    };
    put(0, &header, sizeof header);
    put(4096, sessions.data(), sessions.size() * sizeof sessions[0]);
    put(16384, banks.data(), banks.size() * sizeof banks[0]);
    fp::Directory written = directory;
    if (written.used == 0) written.used = entries.bytes.size();
    put(65536, &written, sizeof written);
    put(65536 + sizeof written, entries.bytes.data(), entries.bytes.size());
    put(2 << 20, &slab, sizeof slab);
    for (size_t i = 0; i < chunks.size(); ++i) {
      const uint64_t at = (2 << 20) + (i + 1) * 65536;
      put(at, &chunks[i].header, sizeof chunks[i].header);
      put(at + 128, chunks[i].slots.data(), chunks[i].slots.size() * sizeof(fp::Slot));
    }
    CHECK_EQ(::ftruncate(fd, static_cast<off_t>(size)), 0);
    ::close(fd);
  }
};

constexpr uint64_t kSite = 0x1000;

// A file with one record.
inline Image image_of_one_record() {
  Image made;
  made.site(kSite, SiteParts("plain"));
  made.chunk(1);
  made.record(kSite, 1001, 1002);
  return made;
}

// The offset that recover() names when it refuses the file; "" if it reads it.
inline std::string format_error_at(const Image& image) {
  const backing_file_checks::Folder folder;
  image.write(folder.file());
  std::string text;
  try {
    fp::validate_capture(fp::recover(folder.file()).capture);
  } catch (const fp::FormatError& error) {
    text = error.what();
  }
  const size_t at = text.find("offset ");
  return at == std::string::npos ? text : text.substr(at + 7, text.find(':', at) - at - 7);
}

}  // namespace backing_image
