// SPDX-License-Identifier: Apache-2.0
// ElfImage: the bytes of a file, and what is said about one with a header or note that is wrong.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "check.hpp"
#include "elf_builder.hpp"
#include "process_changes.hpp"
#include "recorder_checks.hpp"

using namespace fastprof;
using namespace elf_builder;
using process_changes::next_descriptor;

namespace {

// What is said about a usable file after `change`, which gets it laid out.
template <class Change>
std::string problem_of(Change change) {
  Table table;
  table.add("function", 0x1000, 16);
  File file;
  file.put_note("12345678");
  file.put(table);
  file.lay_out();
  change(file);
  const Loaded loaded(file);
  CHECK_EQ(loaded.image.problem().empty(), !loaded.image.functions().empty());
  return loaded.image.problem();
}
// The same for a change of the section headers, 1: symbols, 2: strings.
template <class Change>
std::string problem_of_sections(Change change) {
  return problem_of([&](File& file) {
    change(file.sections);
    std::memcpy(file.contents.data() + file.header.e_shoff - sizeof file.header,
                file.sections.data(), file.sections.size() * sizeof(Elf64_Shdr));
  });
}

}  // namespace

TEST(bytes_outside_are_not_read) {
  const Bytes bytes = {1, 2, 3, 4};
  const ElfBytes memory(bytes.data(), bytes.size());
  CHECK_EQ(memory.size(), 4);
  CHECK(memory.contains(0, 4) && memory.contains(4, 0) && memory.contains(3, 1));
  CHECK(!memory.contains(0, 5) && !memory.contains(5, 0) && !memory.contains(1, 4));
  CHECK(!memory.contains(1, ~uint64_t{0}));
  uint8_t out[4] = {};
  CHECK(memory.read(2, out, 2));
  CHECK(out[0] == 3 && out[1] == 4 && out[2] == 0);
  CHECK(!memory.read(3, out, 2));
  CHECK(memory.read(4, nullptr, 0));
  CHECK(!ElfBytes().is_open());
  CHECK_EQ(ElfBytes().size(), 0);
}

TEST(a_file_that_shrinks_is_read_no_further) {
  const Named file({1, 2, 3, 4});
  const ElfBytes bytes(file.path);
  uint8_t out[4] = {};
  CHECK(bytes.is_open());
  CHECK_EQ(bytes.size(), 4);
  CHECK(bytes.read(1, out, 3));
  CHECK(out[0] == 2 && out[2] == 4);
  CHECK_EQ(::ftruncate(file.fd, 2), 0);
  CHECK(!bytes.read(0, out, 4));
}

TEST(descriptors_of_files_are_closed) {
  const Named file({1, 2, 3, 4});
  const int fd = next_descriptor();
  {
    const ElfBytes bytes(file.path);
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK((::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);  // opening a pipe does not wait
    CHECK_EQ(::fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
  }
  CHECK_EQ(next_descriptor(), fd);
  const ElfBytes folder("/");
  CHECK(!folder.is_open());
  CHECK_EQ(next_descriptor(), fd);
}

TEST(descriptor_0_is_one_as_well) {
  const Named file({1, 2, 3, 4});
  CHECK_EQ(recorder_checks::in_child([&] {
             ::close(0);
             {
               const ElfBytes bytes(file.path);
               uint8_t out[4] = {};
               if (!bytes.is_open() || !bytes.read(0, out, 4) || out[3] != 4) return 1;
             }
             return next_descriptor() == 0 ? 0 : 2;
           }),
           0);
}

TEST(headers_that_are_wrong_are_named) {
  CHECK_EQ(problem_of([](File&) {}), "");
  const std::string not_64 = "the file is not 64-bit little-endian ELF";
  CHECK_EQ(problem_of([](File& f) { f.header.e_ident[0] = 'E'; }), "the file is not ELF");
  CHECK_EQ(problem_of([](File& f) { f.header.e_ident[3] = 'f'; }), "the file is not ELF");
  CHECK_EQ(problem_of([](File& f) { f.header.e_ident[EI_CLASS] = ELFCLASS32; }), not_64);
  CHECK_EQ(problem_of([](File& f) { f.header.e_ident[EI_DATA] = ELFDATA2MSB; }), not_64);
  CHECK_EQ(problem_of([](File& f) { --f.header.e_phentsize; }),
           "the program headers are malformed");
  CHECK_EQ(problem_of([](File& f) { f.header.e_phnum = f.header.e_phentsize = 0; }), "");
  const std::string outside = "the program headers lie outside the file";
  CHECK_EQ(problem_of([](File& f) { f.header.e_phoff = ~uint64_t{0} - 8; }), outside);
  CHECK_EQ(problem_of([](File& f) { f.header.e_phoff = f.bytes().size() - 8; }), outside);
  const std::string malformed = "the section headers are malformed";
  CHECK_EQ(problem_of([](File& f) { f.header.e_shoff = 0; }), "the file has no section headers");
  CHECK_EQ(problem_of([](File& f) { ++f.header.e_shentsize; }), malformed);
  CHECK_EQ(problem_of([](File& f) { f.header.e_shoff = f.bytes().size() + 1; }), malformed);
  const std::string sections_outside = "the section headers lie outside the file";
  CHECK_EQ(problem_of([](File& f) { f.header.e_shoff = f.bytes().size(); }), sections_outside);
  CHECK_EQ(problem_of([](File& f) { ++f.header.e_shnum; }), sections_outside);
  ElfImage image;
  const uint8_t little[sizeof(Elf64_Ehdr) - 1] = {};
  image.load(ElfBytes(little, sizeof little));
  CHECK_EQ(image.problem(), "the file is too short to be ELF");
  const Named empty({});
  image.load(ElfBytes(empty.path));
  CHECK_EQ(image.problem(), "the file is too short to be ELF");
  image.load(ElfBytes("/"));
  CHECK_EQ(image.problem(), "the file cannot be opened");
}

TEST(symbol_tables_that_are_wrong_are_named) {
  using Sections = std::vector<Elf64_Shdr>;
  const std::string malformed = "the symbol table is malformed";
  CHECK_EQ(problem_of_sections([](Sections&) {}), "");
  CHECK_EQ(problem_of_sections([](Sections& s) { ++s[1].sh_entsize; }), malformed);
  CHECK_EQ(problem_of_sections([](Sections& s) { s[1].sh_size = 1 << 20; }), malformed);
  CHECK_EQ(problem_of_sections([](Sections& s) { s[1].sh_link = 99; }), malformed);
  CHECK_EQ(problem_of_sections([](Sections& s) { s[2].sh_type = SHT_PROGBITS; }), malformed);
  CHECK_EQ(problem_of_sections([](Sections& s) { s[2].sh_size = 1 << 20; }), malformed);
  CHECK_EQ(problem_of_sections([](Sections& s) { s[1].sh_size = 0; }),
           "the file has no function symbols");
  // A section header behind the last one is none.
  CHECK_EQ(problem_of([](File& f) {
             f.sections[1].sh_link = 3;
             f.sections.push_back(f.sections[2]);
             f.lay_out();
             f.header.e_shnum = 3;
           }),
           malformed);
}

TEST(a_count_of_sections_that_is_large_lies_in_the_first_one) {
  const auto load = [](size_t count) {
    Table table;
    table.add("function", 0x1000, 16);
    File file;
    file.put(table);
    file.sections.resize(count);
    file.sections[0].sh_size = count;
    file.lay_out();
    file.header.e_shnum = 0;
    return Loaded(file).image.problem();
  };
  CHECK_EQ(load(3), "");
  CHECK_EQ(load(65536), "");
  CHECK_EQ(load(65537), "the section headers lie outside the file");
}

TEST(the_first_build_id_in_sixteen_notes_counts) {
  const auto id_behind = [](int others, size_t padded = 0) {
    File file;
    for (int i = 0; i < others; ++i) file.put_note("tag", NT_GNU_ABI_TAG);
    file.put_note("id", NT_GNU_BUILD_ID, padded);
    file.put_note("no");
    file.lay_out();
    return Loaded(file).image.build_id();
  };
  CHECK_EQ(id_behind(0), "6964");
  CHECK_EQ(id_behind(15), "6964");
  CHECK_EQ(id_behind(16), "");
  CHECK_EQ(id_behind(0, 65536), "6964");
  CHECK_EQ(id_behind(0, 65537), "6e6f");  // too long to be read
  CHECK_EQ(problem_of([](File& f) {
             f.segments[0].p_offset = f.bytes().size();  // outside: no reason to refuse the rest
             f.lay_out();
           }),
           "");
}

TEST(owners_and_lengths_of_notes) {
  const auto note = [](const std::string& owner, uint32_t owner_bytes, size_t id_bytes) {
    const Elf64_Nhdr head{owner_bytes, static_cast<uint32_t>(id_bytes), NT_GNU_BUILD_ID};
    std::string text(reinterpret_cast<const char*>(&head), sizeof head);
    text += owner + std::string((4 - owner.size() % 4) % 4, '\0') + std::string(id_bytes, '\x5A');
    return text + std::string((4 - id_bytes % 4) % 4, '\0');
  };
  const auto id_of = [](const std::string& notes) {
    return build_id_of_notes(reinterpret_cast<const uint8_t*>(notes.data()), notes.size());
  };
  const std::string gnu("GNU\0", 4);
  const std::string good = note(gnu, 4, 2);
  CHECK_EQ(id_of(good), "5a5a");
  CHECK_EQ(id_of(note(gnu, 3, 4) + good), "5a5a");
  CHECK_EQ(id_of(note(std::string("GNU5\0", 5), 5, 4) + good), "5a5a");
  CHECK_EQ(id_of(note("GNUX", 4, 3) + good), "5a5a");
  CHECK_EQ(id_of(note("", 0, 0) + good), "5a5a");
  CHECK_EQ(id_of(note(gnu, 4, 64)).size(), 128);
  CHECK_EQ(id_of(note(gnu, 4, 65) + good), "5a5a");
}
