// SPDX-License-Identifier: Apache-2.0
// Symbols: compared with the dynamic loader's answers; files that are damaged or
// swapped.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "check.hpp"
#include "fastprof/payload/native_stack/symbolize.hpp"
#include "fastprof/payload/native_stack/unwind_cache.hpp"
#include "text_checks.hpp"

using namespace fastprof;
using text_checks::has;

static uint64_t address_of(const void* p) {
  return reinterpret_cast<uint64_t>(p);
}

TEST(the_c_library_agrees_with_the_loader) {
  Symbolizer symbols;
  int checked = 0;
  for (void* p : {reinterpret_cast<void*>(&std::qsort), reinterpret_cast<void*>(&std::strtol),
                  reinterpret_cast<void*>(&::setenv), reinterpret_cast<void*>(&::dlopen),
                  reinterpret_cast<void*>(&abi::__cxa_demangle)}) {
    Dl_info info;
    if (::dladdr(p, &info) == 0 || info.dli_saddr == nullptr) continue;  // a static executable
    const Symbol symbol = symbols.address(address_of(p));
    if (has(symbol.function, "___interceptor") || has(symbol.function, "__interceptor"))
      continue;  // a sanitizer's
    ++checked;
    CHECK(!symbol.function.empty());
    CHECK_EQ(symbol.address - symbol.offset, address_of(info.dli_saddr));
    CHECK_EQ(symbol.address - symbol.module_offset, address_of(info.dli_fbase));
    const Symbol later = symbols.address(address_of(p) + 1);
    CHECK_EQ(later.function, symbol.function);
    CHECK_EQ(later.offset, symbol.offset + 1);
  }
  CHECK(checked > 0 || ::dlsym(RTLD_DEFAULT, "qsort") == nullptr);
}

// The vdso's file, as it lies in memory; empty under an emulator without one.
static std::vector<uint8_t> vdso_image(uint64_t* start) {
  ModuleMap map;
  map.refresh();
  for (const ModuleInfo& module : map.modules()) {
    if (!module.vdso) continue;
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const auto& segment = module.segments.front();
    *start = segment.first;
    const auto* bytes = reinterpret_cast<const uint8_t*>(segment.first);
    return std::vector<uint8_t>(bytes,
                                bytes + (segment.second - segment.first + page - 1) / page * page);
  }
  return {};
}

TEST(the_vdso_has_names) {
  uint64_t start = 0;
  const std::vector<uint8_t> file = vdso_image(&start);
  if (file.empty()) return;
  ElfImage image;
  image.load(ElfBytes(file.data(), file.size()));
  CHECK_EQ(image.problem(), std::string());
  Symbolizer symbols;
  bool clock_seen = false;
  for (const ElfFunction& function : image.functions()) {
    const Symbol symbol = symbols.address(start + function.value);
    CHECK(has(symbol.module, "vdso"));
    CHECK(!symbol.function.empty());
    clock_seen = clock_seen || has(symbol.function, "clock_gettime");
  }
  CHECK(clock_seen);
}

TEST(demangling) {
  CHECK_EQ(demangle("_ZN2at6native3addERKNS_6TensorES3_"),
           std::string("at::native::add(at::Tensor const&, at::Tensor const&)"));
  CHECK_EQ(demangle("memcpy"), std::string("memcpy"));
  CHECK_EQ(demangle("_Znot a name"), std::string("_Znot a name"));
  CHECK_EQ(demangle(""), std::string());
  CHECK_EQ(demangle("__libc_start_main@@GLIBC_2.34"), std::string("__libc_start_main"));
  CHECK_EQ(demangle("_ZNSs6appendEPKc@GLIBCXX_3.4").substr(0, 5), std::string("std::"));
  const std::string hostile = "_Z" + std::string(100000, 'P') + "v";
  CHECK_EQ(demangle(hostile), hostile);
  uint64_t seed = 99;
  for (int round = 0; round < 3000; ++round) {
    std::string name = "_ZNSt6vectorIN3abc3defIiEESaIS2_EE9push_backERKS2_";
    for (int i = 0; i < 4; ++i) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      name[2 + (seed >> 33) % (name.size() - 2)] = static_cast<char>(33 + (seed >> 20) % 90);
    }
    CHECK(!demangle(name).empty());
  }
}

// A whole ELF file in memory: one PT_LOAD, one note with a build id, .symtab and its strings.
struct HandMade {
  struct Function {
    const char* name;
    uint64_t value, size;
    unsigned char info;
  };
  static std::vector<uint8_t> make(const std::vector<Function>& functions) {
    std::vector<uint8_t> file(sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr));
    const auto append = [&](const void* p, size_t n) {
      const size_t at = file.size();
      file.resize(at + n);
      std::memcpy(file.data() + at, p, n);
      return at;
    };
    struct {
      Elf64_Nhdr header;
      char name[4];
      uint8_t id[8];
    } note = {{4, 8, NT_GNU_BUILD_ID}, {'G', 'N', 'U', 0}, {0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4}};
    const size_t note_at = append(&note, sizeof note);
    std::string strings(1, '\0');
    std::vector<Elf64_Sym> symbols(1, Elf64_Sym{});
    for (const Function& f : functions) {
      Elf64_Sym symbol{};
      symbol.st_name = static_cast<uint32_t>(strings.size());
      symbol.st_info = f.info;
      symbol.st_shndx = 1;
      symbol.st_value = f.value;
      symbol.st_size = f.size;
      symbols.push_back(symbol);
      strings += f.name;
      strings += '\0';
    }
    const size_t strings_at = append(strings.data(), strings.size());
    file.resize((file.size() + 7) / 8 * 8);
    const size_t symbols_at = append(symbols.data(), symbols.size() * sizeof(Elf64_Sym));
    Elf64_Shdr sections[3] = {};
    sections[1].sh_type = SHT_SYMTAB;
    sections[1].sh_offset = symbols_at;
    sections[1].sh_size = symbols.size() * sizeof(Elf64_Sym);
    sections[1].sh_entsize = sizeof(Elf64_Sym);
    sections[1].sh_link = 2;
    sections[2].sh_type = SHT_STRTAB;
    sections[2].sh_offset = strings_at;
    sections[2].sh_size = strings.size();
    const size_t sections_at = append(sections, sizeof sections);
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_phoff = sizeof header;
    header.e_phnum = 2;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_shoff = sections_at;
    header.e_shnum = 3;
    header.e_shentsize = sizeof(Elf64_Shdr);
    std::memcpy(file.data(), &header, sizeof header);
    Elf64_Phdr segments[2] = {};
    segments[0].p_type = PT_LOAD;
    segments[0].p_filesz = segments[0].p_memsz = file.size();
    segments[1].p_type = PT_NOTE;
    segments[1].p_offset = note_at;
    segments[1].p_filesz = segments[1].p_memsz = sizeof note;
    std::memcpy(file.data() + sizeof header, segments, sizeof segments);
    return file;
  }
};

static const unsigned char kGlobal = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
static const unsigned char kWeak = ELF64_ST_INFO(STB_WEAK, STT_FUNC);
static const unsigned char kLocal = ELF64_ST_INFO(STB_LOCAL, STT_FUNC);
static const unsigned char kData = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);

static std::vector<uint8_t> hand_made() {
  return HandMade::make({{"alias_local", 0x1000, 0x20, kLocal},
                         {"alias_weak", 0x1000, 0x20, kWeak},
                         {"alias_global", 0x1000, 0x20, kGlobal},
                         {"data", 0x1010, 0x400, kData},
                         {"outer", 0x2000, 0x100, kGlobal},
                         {"inner", 0x2010, 0x10, kLocal},
                         {"no_size", 0x3000, 0, kLocal},
                         {"last", 0x4000, 8, kGlobal}});
}

TEST(damaged_files_are_refused_with_a_reason) {
  const std::vector<uint8_t> good = hand_made();
  for (size_t cut = 0; cut < good.size(); ++cut) {
    const std::vector<uint8_t> bad(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut));
    ElfImage image;
    image.load(ElfBytes(bad.data(), bad.size()));
    CHECK(!image.problem().empty());
    CHECK(image.functions().empty());
  }
  ElfImage image;
  image.load(ElfBytes("/nonexistent"));
  CHECK(has(image.problem(), "cannot be opened"));
  image.load(ElfBytes("/"));  // not a regular file
  CHECK(!image.problem().empty());
  std::vector<uint8_t> other = good;
  other[EI_CLASS] = ELFCLASS32;
  image.load(ElfBytes(other.data(), other.size()));
  CHECK(has(image.problem(), "64-bit"));
}

// Every byte of an ELF file may be anything: no crash, no read outside (the sanitizers watch),
// bounded work.
static void fuzz(const std::vector<uint8_t>& good, int rounds, size_t head) {
  uint64_t seed = 2024;
  const auto random = [&] {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 30;
  };
  size_t usable = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<uint8_t> bad = good;
    const uint64_t changes = 1 + random() % 6;
    for (uint64_t i = 0; i < changes; ++i) {
      const size_t range = random() % 2 == 0 ? std::min(head, bad.size()) : bad.size();
      const size_t at = static_cast<size_t>(random() % range);
      static const uint8_t interesting[] = {0, 1, 0x7F, 0x80, 0xFF, 0xFE};
      bad[at] = random() % 2 == 0 ? interesting[random() % 6] : static_cast<uint8_t>(random());
    }
    if (random() % 8 == 0) bad.resize(static_cast<size_t>(random() % bad.size()));
    // Exactly sized, so that one byte too far is seen.
    ElfImage image;
    image.load(ElfBytes(bad.empty() ? good.data() : bad.data(), bad.size()));
    usable += image.functions().empty() ? 0 : 1;
    for (const ElfFunction& function : image.functions()) {
      image.name(function);
      image.find(function.value);
    }
    for (int i = 0; i < 20; ++i) image.find(random() << (random() % 30));
  }
  CHECK(usable > 0);
}

TEST(mutated_files) {
  const std::vector<uint8_t> small = hand_made();
  fuzz(small, 20000, small.size());
  uint64_t start = 0;
  const std::vector<uint8_t> vdso = vdso_image(&start);
  if (!vdso.empty()) fuzz(vdso, 3000, 2048);
}

// A library of the system that this process has not loaded, copied so that its file can be changed.
static std::string copy_of_some_library(const char* suffix, const char** function) {
  for (const auto& candidate : {std::make_pair("libthread_db.so.1", "td_init"),
                                std::make_pair("libnss_compat.so.2", "_nss_compat_setpwent"),
                                std::make_pair("libresolv.so.2", "__b64_ntop")}) {
    void* library = ::dlopen(candidate.first, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    void* entry = ::dlsym(library, candidate.second);
    Dl_info info;
    std::string source;
    if (entry != nullptr && ::dladdr(entry, &info) != 0) source = info.dli_fname;
    ::dlclose(library);
    if (source.empty()) continue;
    const char* folder = std::getenv("TMPDIR");
    const std::string target = std::string(folder != nullptr ? folder : "/tmp") +
                               "/fastprof_symbolize_" + std::to_string(::getpid()) + suffix + ".so";
    std::ofstream(target, std::ios::binary) << text_checks::contents(source);
    *function = candidate.second;
    return target;
  }
  return {};
}

TEST(an_unloaded_library_keeps_its_names) {
  const char* name = nullptr;
  const std::string path = copy_of_some_library("a", &name);
  if (path.empty()) return;  // a static executable
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr);
  if (library == nullptr) return;
  const uint64_t entry = address_of(::dlsym(library, name));
  Symbolizer during;  // lists modules while it is loaded, resolves afterwards
  CHECK_EQ(::dlclose(library), 0);
  Symbolizer after;
  during.refresh();
  const Symbol symbol = during.address(entry);
  CHECK_EQ(symbol.function, std::string(name));
  CHECK_EQ(symbol.module, path);
  CHECK_EQ(symbol.offset, uint64_t{0});
  CHECK(after.address(entry).module.empty());
  ::unlink(path.c_str());
}

TEST(a_file_that_was_replaced_is_not_believed) {
  const char* name = nullptr;
  const std::string path = copy_of_some_library("b", &name);
  if (path.empty()) return;
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr);
  if (library == nullptr) return;
  const uint64_t entry = address_of(::dlsym(library, name));
  Symbolizer symbols;
  ::unlink(path.c_str());  // a new file under the old name, as package upgrades do
  const std::vector<uint8_t> other = hand_made();
  std::ofstream(path, std::ios::binary) << std::string(other.begin(), other.end());
  const Symbol symbol = symbols.address(entry);
  CHECK_EQ(symbol.module, path);
  CHECK(symbol.module_offset != 0);
  // The name may still come from a separate file of full symbols, which is found by build id.
  if (symbol.function.empty()) {
    CHECK(has(symbol.text(), ".so+0x"));
    CHECK(has(symbols.problem(path), "replaced"));
  } else {
    CHECK_EQ(symbol.function, std::string(name));
    CHECK_EQ(symbols.problem(path), std::string());
  }
  ::unlink(path.c_str());
  Symbolizer later;
  CHECK_EQ(later.address(entry).function, symbol.function);
  CHECK(!symbol.function.empty() || has(later.problem(path), "cannot be opened"));
  ::dlclose(library);
}

TEST(many_threads_ask_one_symbolizer) {
  Symbolizer symbols;
  std::thread threads[4];
  for (std::thread& thread : threads)
    thread = std::thread([&symbols] {
      for (uint64_t i = 0; i < 300; ++i) {
        symbols.address(address_of(reinterpret_cast<void*>(&std::qsort)) + i % 50);
        if (i % 50 == 0) symbols.refresh();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(!symbols.address(address_of(reinterpret_cast<void*>(&address_of))).function.empty());
}
