// SPDX-License-Identifier: Apache-2.0
// ElfImage: reads function symbols and build id of one ELF file or memory image. Files are
// untrusted; every offset is checked. Format: System V ABI, "Object Files", and <elf.h>. Only
// 64-bit little-endian files, the only ones this process can have loaded.
#pragma once

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/files.hpp"
#include "fastprof/platform/linux/build_id.hpp"

FASTPROF_NAMESPACE_BEGIN

// Bytes of an ELF file or memory image (the vdso, tests). Files are read, not mapped, because
// truncating a mapped file kills the process with SIGBUS.
class ElfBytes {
 public:
  ElfBytes() = default;
  ElfBytes(const void* memory, uint64_t size)
      : memory_(static_cast<const uint8_t*>(memory)), size_(size) {}
  explicit ElfBytes(const std::string& path) {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat facts;
    if (fd_ < 0) return;
    if (::fstat(fd_, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size < 0) {
      close();
      return;
    }
    size_ = static_cast<uint64_t>(facts.st_size);
  }
  ElfBytes(ElfBytes&& other) noexcept { swap(other); }
  ElfBytes& operator=(ElfBytes&& other) noexcept {
    swap(other);
    return *this;
  }
  ElfBytes(const ElfBytes&) = delete;
  ElfBytes& operator=(const ElfBytes&) = delete;
  ~ElfBytes() { close(); }

  bool is_open() const noexcept { return fd_ >= 0 || memory_ != nullptr; }
  uint64_t size() const noexcept { return size_; }
  bool contains(uint64_t offset, uint64_t bytes) const noexcept {
    return offset <= size_ && bytes <= size_ - offset;
  }
  // Reads exactly `bytes` bytes, or returns false.
  bool read(uint64_t offset, void* out, uint64_t bytes) const noexcept {
    if (!contains(offset, bytes)) return false;
    if (bytes == 0) return true;
    if (memory_ != nullptr) {
      std::memcpy(out, memory_ + offset, bytes);
      return true;
    }
    return platform::read_at(fd_, offset, out, bytes);  // false: truncated meanwhile
  }

 private:
  void swap(ElfBytes& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
  }
  void close() noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  int fd_ = -1;
  const uint8_t* memory_ = nullptr;
  uint64_t size_ = 0;
};

// One function symbol. 24 bytes; the name stays in the file.
struct ElfFunction {
  uint64_t value;  // linked address
  uint64_t size_bytes;
  uint32_t name;  // offset in the string table
  uint32_t rank;  // preference among several names of one address: lowest first
};

// Contents of one ELF file. Not thread-safe.
class ElfImage {
 public:
  // Reads headers, build id and functions. If there are no functions, problem() then gives the
  // reason; otherwise it is empty.
  void load(ElfBytes bytes) {
    bytes_ = std::move(bytes);
    functions_.clear();
    problem_.clear();
    build_id_.clear();
    loads_.clear();
    if (!bytes_.is_open()) {
      problem_ = "the file cannot be opened";
    } else if (read_headers() && read_sections() && functions_.empty()) {
      problem_ = "the file has no function symbols";
    }
  }

  const std::string& problem() const noexcept { return problem_; }
  const std::string& build_id() const noexcept { return build_id_; }
  bool full_symbols() const noexcept {
    return full_symbols_;
  }  // read from .symtab, not only the exported symbols
  // (linked address, file size) of each PT_LOAD segment.
  const std::vector<std::pair<uint64_t, uint64_t>>& loads() const noexcept { return loads_; }
  const std::vector<ElfFunction>& functions() const noexcept { return functions_; }

  // Returns the function that contains a linked address, or null.
  const ElfFunction* find(uint64_t value) const noexcept {
    auto above = std::upper_bound(functions_.begin(), functions_.end(), value,
                                  [](uint64_t v, const ElfFunction& f) { return v < f.value; });
    // Functions may nest (assembly). 16 candidates suffice; a longer search would only help a
    // malicious file.
    for (int tries = 0; tries < 16 && above != functions_.begin(); ++tries) {
      --above;
      const uint64_t into = value - above->value;
      if (into < above->size_bytes) return first_of(above);
      // Size 0: an assembly function without a size extends to the next symbol.
      if (above->size_bytes == 0 && (tries == 0 || into == 0)) return first_of(above);
    }
    return nullptr;
  }

  // Returns the mangled name; empty if the file is damaged. Names over 64 KB are truncated.
  std::string name(const ElfFunction& function) const {
    std::string text;
    char buffer[256];
    while (text.size() < 65536) {
      const uint64_t offset = function.name + text.size();
      if (offset >= strings_size_) return {};
      const uint64_t part = std::min<uint64_t>(sizeof buffer, strings_size_ - offset);
      if (!bytes_.read(strings_offset_ + offset, buffer, part)) return {};
      const void* end = std::memchr(buffer, 0, part);
      if (end != nullptr) {
        text.append(buffer, static_cast<size_t>(static_cast<const char*>(end) - buffer));
        break;
      }
      text.append(buffer, part);
    }
    return text;
  }

 private:
  using Iterator = std::vector<ElfFunction>::const_iterator;
  const ElfFunction* first_of(Iterator at) const noexcept {
    while (at != functions_.begin() && std::prev(at)->value == at->value &&
           std::prev(at)->size_bytes == at->size_bytes)
      --at;
    return &*at;
  }
  bool fail(const char* why) {
    problem_ = why;
    return false;
  }

  bool read_headers() {
    if (!bytes_.read(0, &header_, sizeof header_)) return fail("the file is too short to be ELF");
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) return fail("the file is not ELF");
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB)
      return fail("the file is not 64-bit little-endian ELF");
    if (header_.e_phnum != 0 && header_.e_phentsize != sizeof(Elf64_Phdr))
      return fail("the program headers are malformed");
    int note_segments = 0;
    for (uint64_t i = 0; i < header_.e_phnum; ++i) {
      Elf64_Phdr segment;
      if (header_.e_phoff > bytes_.size() ||
          !bytes_.read(header_.e_phoff + i * sizeof segment, &segment, sizeof segment))
        return fail("the program headers lie outside the file");
      if (segment.p_type == PT_LOAD) loads_.emplace_back(segment.p_vaddr, segment.p_filesz);
      if (segment.p_type == PT_NOTE && build_id_.empty() && segment.p_filesz <= 65536 &&
          ++note_segments <= 16) {
        std::vector<uint8_t> notes(static_cast<size_t>(segment.p_filesz));
        if (bytes_.read(segment.p_offset, notes.data(), notes.size()))
          build_id_ = build_id_of_notes(notes.data(), notes.size());
      }
    }
    return true;
  }

  bool section(uint64_t index, Elf64_Shdr* out) const {
    return bytes_.read(header_.e_shoff + index * sizeof *out, out, sizeof *out);
  }

  bool read_sections() {
    if (header_.e_shoff == 0) return fail("the file has no section headers");
    if (header_.e_shentsize != sizeof(Elf64_Shdr) || header_.e_shoff > bytes_.size())
      return fail("the section headers are malformed");
    uint64_t count = header_.e_shnum;
    Elf64_Shdr current;
    if (count == 0 && section(0, &current)) count = current.sh_size;
    if (count > 65536 || count > (bytes_.size() - header_.e_shoff) / sizeof(Elf64_Shdr))
      return fail("the section headers lie outside the file");
    full_symbols_ = false;
    constexpr uint32_t kTables[] = {SHT_SYMTAB, SHT_DYNSYM};
    for (const uint32_t wanted : kTables) {
      for (uint64_t i = 0; i < count; ++i) {
        if (!section(i, &current)) return fail("the section headers lie outside the file");
        if (current.sh_type != wanted) continue;
        if (read_symbols(current, count) && !functions_.empty()) {
          full_symbols_ = wanted == SHT_SYMTAB;
          problem_.clear();
          return true;
        }
        break;  // first of each type only: a malicious file could repeat one indefinitely
      }
    }
    return problem_.empty();
  }

  bool read_symbols(const Elf64_Shdr& table, uint64_t section_count) {
    Elf64_Shdr strings;
    if (table.sh_entsize != sizeof(Elf64_Sym) || !bytes_.contains(table.sh_offset, table.sh_size) ||
        table.sh_link >= section_count || !section(table.sh_link, &strings) ||
        strings.sh_type != SHT_STRTAB || !bytes_.contains(strings.sh_offset, strings.sh_size))
      return fail("the symbol table is malformed");
    const uint64_t count = table.sh_size / sizeof(Elf64_Sym);
    std::vector<Elf64_Sym> part(static_cast<size_t>(std::min<uint64_t>(count, 4096)));
    functions_.clear();
    for (uint64_t at = 0; at < count; at += part.size()) {
      const uint64_t symbols = std::min<uint64_t>(part.size(), count - at);
      if (!bytes_.read(table.sh_offset + at * sizeof(Elf64_Sym), part.data(),
                       symbols * sizeof(Elf64_Sym)))
        return fail("the symbol table cannot be read");
      for (uint64_t i = 0; i < symbols; ++i) {
        const Elf64_Sym& symbol = part[static_cast<size_t>(i)];
        const unsigned type = ELF64_ST_TYPE(symbol.st_info);
        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF ||
            symbol.st_value == 0 || symbol.st_name >= strings.sh_size)
          continue;
        const unsigned binding = ELF64_ST_BIND(symbol.st_info);
        const uint32_t rank = binding == STB_GLOBAL ? 0 : binding == STB_WEAK ? 1 : 2;
        functions_.push_back(ElfFunction{symbol.st_value, symbol.st_size, symbol.st_name, rank});
      }
    }
    strings_offset_ = strings.sh_offset;
    strings_size_ = strings.sh_size;
    // Sorted by address; at equal addresses the largest last, so that find() reaches it first, and
    // at equal sizes the preferred name first.
    std::sort(functions_.begin(), functions_.end(), [](const ElfFunction& a, const ElfFunction& b) {
      if (a.value != b.value) return a.value < b.value;
      if (a.size_bytes != b.size_bytes) return a.size_bytes < b.size_bytes;
      if (a.rank != b.rank) return a.rank < b.rank;
      return a.name < b.name;
    });
    functions_.shrink_to_fit();
    return true;
  }

  ElfBytes bytes_;
  Elf64_Ehdr header_{};
  std::string problem_;
  std::string build_id_;
  std::vector<std::pair<uint64_t, uint64_t>> loads_;
  std::vector<ElfFunction> functions_;
  uint64_t strings_offset_ = 0;
  uint64_t strings_size_ = 0;
  bool full_symbols_ = false;
};

FASTPROF_NAMESPACE_END
