// SPDX-License-Identifier: Apache-2.0
// ElfImage: which functions of a hand-made file are found, by which of their names; and which files
// FunctionTable uses.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "check.hpp"
#include "elf_builder.hpp"
#include "fastprof/platform/linux/function_table.hpp"

using namespace fastprof;
using namespace elf_builder;

TEST(of_names_of_one_function_the_most_public_is_taken) {
  Table table;
  table.add("a_local", 0x1000, 16, kLocal);
  table.add("a_weak", 0x1000, 16, kWeak);
  table.add("b_weak", 0x2000, 16, kWeak);
  table.add("b_global", 0x2000, 16, kGlobal);
  table.add("c_local", 0x3000, 16, kLocal);
  table.add("c_global", 0x3000, 16, kGlobal);
  table.add("first", 0x4000, 16, kLocal);
  table.add("second", 0x4000, 16, kLocal);
  const Loaded loaded(table);
  CHECK_EQ(loaded.at(0x1000), "a_weak");
  CHECK_EQ(loaded.at(0x2000), "b_global");
  CHECK_EQ(loaded.at(0x300F), "c_global");
  CHECK_EQ(loaded.at(0x4000), "first");
}

TEST(functions_of_one_size_or_one_address_are_told_apart) {
  Table table;
  table.add("one", 0x1000, 16);
  table.add("two", 0x1010, 16);
  table.add("three", 0x1020, 16);
  table.add("short", 0x2000, 16);
  table.add("long", 0x2000, 32);
  const Loaded loaded(table);
  CHECK_EQ(loaded.at(0x1000), "one");
  CHECK_EQ(loaded.at(0x1010), "two");
  CHECK_EQ(loaded.at(0x102F), "three");
  CHECK_EQ(loaded.at(0x1030), "-");
  CHECK_EQ(loaded.at(0x2000), "long");
  CHECK_EQ(loaded.at(0x201F), "long");
}

TEST(a_function_without_a_size_ends_at_the_next_symbol) {
  Table table;
  table.add("open", 0x3000, 0);
  table.add("closed", 0x3100, 16);
  table.add("label", 0x4000, 0);
  table.add("tiny", 0x4000, 1);
  const Loaded loaded(table);
  CHECK_EQ(loaded.at(0x30FF), "open");
  CHECK_EQ(loaded.at(0x3200), "-");
  CHECK_EQ(loaded.at(0x4000), "tiny");
  CHECK_EQ(loaded.at(0x4001), "-");
}

TEST(of_nested_functions_sixteen_are_looked_at) {
  Table table;
  table.add("outer", 0x1000, 0x1000);
  for (uint64_t i = 0; i < 16; ++i) table.add("inner", 0x1100 + 16 * i, 16);
  const Loaded loaded(table);
  CHECK_EQ(loaded.at(0x10FF), "outer");
  CHECK_EQ(loaded.at(0x11EF), "inner");  // of the 15th
  CHECK_EQ(loaded.at(0x1200), "-");      // 16 are before it
  Table fewer;
  fewer.add("outer", 0x1000, 0x1000);
  for (uint64_t i = 0; i < 15; ++i) fewer.add("inner", 0x1100 + 16 * i, 16);
  CHECK_EQ(Loaded(fewer).at(0x1200), "outer");
}

TEST(symbols_that_are_no_functions_are_left_out) {
  Table table;
  table.add("indirect", 0x1000, 16, kIndirect);
  table.add("data", 0x2000, 16, kData);
  table.add("elsewhere", 0x3000, 16).st_shndx = SHN_UNDEF;
  table.add("nowhere", 0, 16);
  table.add("unnamed", 0x5000, 16);
  table.add("nameless", 0x6000, 16);
  table.symbols[5].st_name = static_cast<uint32_t>(table.strings.size());
  table.symbols[6].st_name = static_cast<uint32_t>(table.strings.size() - 1);
  table.add("last", 0x7000, 16, kLocal);
  table.strings.resize(table.strings.size() - 5);  // the last name is outside
  const Loaded loaded(table);
  CHECK_EQ(loaded.image.functions().size(), 2);
  CHECK_EQ(loaded.at(0x1000), "indirect");
  CHECK_EQ(loaded.at(0x2000), "-");
  CHECK_EQ(loaded.at(0x3000), "-");
  CHECK_EQ(loaded.at(0x8), "-");
  CHECK_EQ(loaded.at(0x5000), "-");
  CHECK_EQ(loaded.at(0x6000), "");
  CHECK_EQ(loaded.at(0x7000), "-");
}

TEST(large_tables_are_read_in_parts) {
  Table table;
  for (uint64_t i = 0; i < 5000; ++i) table.add("f" + std::to_string(i), 0x1000 + 16 * i, 16);
  for (uint64_t i = 0; i < 2000; ++i) {  // one symbol, many times
    table.symbols.push_back(table.symbols.back());
  }
  const Loaded loaded(table);
  CHECK_EQ(loaded.image.functions().size(), 7000);
  for (const uint64_t i : {0, 1, 4094, 4095, 4096, 4999})
    CHECK_EQ(loaded.at(0x1000 + 16 * i), "f" + std::to_string(i));
  CHECK_EQ(loaded.at(0x1000 + uint64_t{16} * 5000), "-");
}

TEST(long_names_are_cut_and_unfinished_ones_empty) {
  const auto name_of_length = [](size_t length, bool terminated) {
    Table table;
    table.add(std::string(length, 'n'), 0x1000, 16);
    if (!terminated) table.strings.pop_back();
    return Loaded(table).at(0x1000).size();
  };
  CHECK_EQ(name_of_length(255, true), 255);
  CHECK_EQ(name_of_length(256, true), 256);
  CHECK_EQ(name_of_length(1000, true), 1000);
  CHECK_EQ(name_of_length(65535, true), 65535);
  CHECK_EQ(name_of_length(70000, true), 65536);
  CHECK_EQ(name_of_length(255, false), 0);
  CHECK_EQ(name_of_length(256, false), 0);
  CHECK_EQ(name_of_length(257, false), 0);
}

TEST(the_full_table_is_preferred_and_only_the_first_of_a_type_is_read) {
  Table functions, other, none;
  functions.add("full", 0x1000, 16);
  other.add("exported", 0x1000, 16);
  none.add("data", 0x1000, 16, kData);
  const auto load = [](std::initializer_list<std::pair<const Table*, uint32_t>> tables) {
    File file;
    for (const auto& table : tables) file.put(*table.first, table.second);
    file.lay_out();
    return Loaded(file);
  };
  const Loaded both = load({{&other, SHT_DYNSYM}, {&functions, SHT_SYMTAB}});
  CHECK_EQ(both.at(0x1000), "full");
  CHECK(both.image.full_symbols());
  const Loaded empty = load({{&none, SHT_SYMTAB}, {&other, SHT_DYNSYM}});
  CHECK_EQ(empty.at(0x1000), "exported");
  CHECK_EQ(empty.image.problem(), "");
  CHECK(!empty.image.full_symbols());
  const Loaded repeated = load({{&none, SHT_SYMTAB}, {&functions, SHT_SYMTAB}});
  CHECK_EQ(repeated.image.problem(), "the file has no function symbols");
  CHECK(!ElfImage().full_symbols());
  // A table that is malformed does not matter if the other one is good.
  File file;
  file.put(functions);
  file.put(other, SHT_DYNSYM);
  file.sections[1].sh_entsize = 1;
  file.lay_out();
  const Loaded damaged(file);
  CHECK_EQ(damaged.at(0x1000), "exported");
  CHECK_EQ(damaged.image.problem(), "");
}

TEST(an_image_that_is_loaded_again_forgets_the_file_before) {
  Table table;
  table.add("function", 0x1000, 16);
  File file;
  file.put_note("12345678");
  Elf64_Phdr segment{};
  segment.p_type = PT_LOAD;
  segment.p_vaddr = 0x1000;
  segment.p_filesz = 0x234;
  file.segments.push_back(segment);
  file.put(table);
  file.lay_out();
  Loaded loaded(file);
  CHECK_EQ(loaded.image.build_id(), "3132333435363738");
  CHECK_EQ(loaded.image.loads().size(), 1);
  CHECK(loaded.image.loads().at(0) == std::make_pair(uint64_t{0x1000}, uint64_t{0x234}));
  loaded.image.load(ElfBytes());
  CHECK_EQ(loaded.image.problem(), "the file cannot be opened");
  CHECK_EQ(loaded.image.build_id(), "");
  CHECK(loaded.image.loads().empty() && loaded.image.functions().empty());
  loaded.image.load(ElfBytes(loaded.bytes.data(), loaded.bytes.size()));
  CHECK_EQ(loaded.image.problem(), "");
}

// The kernel's page is a file in memory that ends with the page in which its segment ends.
TEST(a_file_in_memory_ends_with_its_page) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  Table table;
  table.add("function", 0x1000, 16);
  File file;
  file.put(table);
  file.contents.resize(page);  // the section headers lie in the second page
  file.lay_out();
  const Bytes bytes = file.bytes();
  char* memory = static_cast<char*>(
      ::mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(memory != MAP_FAILED && bytes.size() > page && bytes.size() <= 2 * page);
  std::memcpy(memory, bytes.data(), bytes.size());
  const auto load = [&](uint64_t length, bool loaded = true) {
    ModuleInfo module;
    module.vdso = true;
    module.loaded = loaded;
    const auto first = reinterpret_cast<uint64_t>(memory);
    if (length != 0) module.segments.emplace_back(first, first + length);
    platform::FunctionTable functions;
    functions.load(module);
    std::string symbol;
    uint64_t start = 0;
    const bool found = functions.find(0x100F, &symbol, &start);
    CHECK_EQ(found, functions.problem().empty());
    CHECK(!found || (symbol == "function" && start == 0x1000));
    return functions.problem();
  };
  CHECK_EQ(load(page + 1), "");
  CHECK_EQ(load(2 * page), "");
  CHECK_EQ(load(page), "the section headers are malformed");
  CHECK_EQ(load(0), "the file cannot be opened");
  CHECK_EQ(load(page + 1, false), "the file cannot be opened");
  ::munmap(memory, 3 * page);
}

TEST(a_file_is_used_only_if_it_is_the_one_that_was_loaded) {
  Table table;
  table.add("function", 0x1000, 16);
  File file;
  file.put_note("id");
  Elf64_Phdr segment{};
  segment.p_type = PT_LOAD;
  segment.p_filesz = 0x234;
  file.segments.push_back(segment);
  file.put(table);
  file.lay_out();
  const Named named(file.bytes());
  const auto load = [&](const std::string& build_id, uint64_t file_bytes) {
    ModuleInfo module;
    module.path = named.path;
    module.build_id = build_id;
    module.loads.emplace_back(0, file_bytes);
    platform::FunctionTable functions;
    functions.load(module);
    std::string symbol;
    uint64_t start = 0;
    CHECK_EQ(functions.find(0x1000, &symbol, &start), functions.problem().empty());
    return functions.problem();
  };
  CHECK_EQ(load("6964", 0x234), "");
  CHECK_EQ(load("6965", 0x234), "the file was replaced since it was loaded");
  CHECK_EQ(load("6964", 0x235), "the file was replaced since it was loaded");
}
