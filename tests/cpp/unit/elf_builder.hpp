// SPDX-License-Identifier: Apache-2.0
// Hand-made ELF files for tests: symbol tables, notes and headers, each of which may be wrong.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "check.hpp"
#include "fastprof/platform/linux/elf_image.hpp"

// Unnamed: a class with default visibility may not hold one of fastprof's hidden types without a
// warning.
namespace elf_builder {
namespace {

using namespace fastprof;

using Bytes = std::vector<uint8_t>;

constexpr unsigned char kGlobal = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
constexpr unsigned char kWeak = ELF64_ST_INFO(STB_WEAK, STT_FUNC);
constexpr unsigned char kLocal = ELF64_ST_INFO(STB_LOCAL, STT_FUNC);
constexpr unsigned char kData = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
constexpr unsigned char kIndirect = ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC);

// A symbol table and the strings that it refers to.
struct Table {
  std::vector<Elf64_Sym> symbols = std::vector<Elf64_Sym>(1, Elf64_Sym{});
  std::string strings = std::string(1, '\0');

  Elf64_Sym& add(const std::string& name, uint64_t value, uint64_t size,
                 unsigned char info = kGlobal) {
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<uint32_t>(strings.size());
    symbol.st_info = info;
    symbol.st_shndx = 1;
    symbol.st_value = value;
    symbol.st_size = size;
    symbols.push_back(symbol);
    strings += name + '\0';
    return symbols.back();
  }
};

// A file: its header, contents, program headers, section headers.
struct File {
  Elf64_Ehdr header{};
  Bytes contents;
  std::vector<Elf64_Phdr> segments;
  std::vector<Elf64_Shdr> sections = std::vector<Elf64_Shdr>(1, Elf64_Shdr{});

  uint64_t put(const void* from, size_t bytes) {
    contents.resize((contents.size() + 7) / 8 * 8);
    const size_t at = contents.size();
    contents.resize(at + bytes);
    std::memcpy(contents.data() + at, from, bytes);
    return sizeof header + at;
  }
  // Sections of a table and of its strings, in this order; returns the index of the first.
  size_t put(const Table& table, uint32_t type = SHT_SYMTAB) {
    const size_t index = sections.size();
    Elf64_Shdr symbols{}, strings{};
    symbols.sh_type = type;
    symbols.sh_size = table.symbols.size() * sizeof(Elf64_Sym);
    symbols.sh_offset = put(table.symbols.data(), symbols.sh_size);
    symbols.sh_entsize = sizeof(Elf64_Sym);
    symbols.sh_link = static_cast<uint32_t>(index + 1);
    strings.sh_type = SHT_STRTAB;
    strings.sh_size = table.strings.size();
    strings.sh_offset = put(table.strings.data(), strings.sh_size);
    sections.push_back(symbols);
    sections.push_back(strings);
    return index;
  }
  void put_note(const std::string& id, uint32_t type = NT_GNU_BUILD_ID, size_t padded = 0) {
    Bytes note(sizeof(Elf64_Nhdr) + 4 + id.size());
    const Elf64_Nhdr head{4, static_cast<uint32_t>(id.size()), type};
    std::memcpy(note.data(), &head, sizeof head);
    std::memcpy(note.data() + sizeof head, "GNU", 4);
    std::memcpy(note.data() + sizeof head + 4, id.data(), id.size());
    note.resize(std::max((note.size() + 3) / 4 * 4, padded));
    Elf64_Phdr segment{};
    segment.p_type = PT_NOTE;
    segment.p_filesz = note.size();
    segment.p_offset = put(note.data(), note.size());
    segments.push_back(segment);
  }
  // Call it before bytes(), to change the header afterwards.
  void lay_out() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_phoff =
        segments.empty() ? 0 : put(segments.data(), segments.size() * sizeof(Elf64_Phdr));
    header.e_phnum = static_cast<uint16_t>(segments.size());
    header.e_phentsize = segments.empty() ? 0 : sizeof(Elf64_Phdr);
    header.e_shoff = put(sections.data(), sections.size() * sizeof(Elf64_Shdr));
    header.e_shnum = static_cast<uint16_t>(sections.size());
    header.e_shentsize = sizeof(Elf64_Shdr);
  }
  Bytes bytes() const {
    const auto* head = reinterpret_cast<const uint8_t*>(&header);
    Bytes all(head, head + sizeof header);
    all.insert(all.end(), contents.begin(), contents.end());
    return all;
  }
};

// A loaded image and the bytes that it reads.
struct Loaded {
  Bytes bytes;
  ElfImage image;
  explicit Loaded(const File& file) : bytes(file.bytes()) {
    image.load(ElfBytes(bytes.data(), bytes.size()));
  }
  explicit Loaded(const Table& table) : Loaded(with(table)) {}

  std::string at(uint64_t value) const {
    const ElfFunction* function = image.find(value);
    return function == nullptr ? "-" : image.name(*function);
  }
  static File with(const Table& table) {
    File file;
    file.put(table);
    file.lay_out();
    return file;
  }
};

// A file without a name that has a path.
struct Named {
  int fd = ::memfd_create("fastprof_test", MFD_CLOEXEC);
  std::string path = "/proc/self/fd/" + std::to_string(fd);
  explicit Named(const Bytes& bytes) {
    CHECK_EQ(::pwrite(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  ~Named() { ::close(fd); }
};

}  // namespace
}  // namespace elf_builder
