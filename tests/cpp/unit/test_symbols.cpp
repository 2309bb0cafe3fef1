// SPDX-License-Identifier: Apache-2.0
// Texts and names of symbols, the list of loaded modules, and what the symbolizer keeps of an
// address.
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "check.hpp"
#include "fastprof/payload/native_stack/symbolize.hpp"
#include "recorder_checks.hpp"

using namespace fastprof;

namespace {

uint64_t address_of(const void* p) {
  return reinterpret_cast<uint64_t>(p);
}

// A library of the system that is not loaded yet; null if all of them are, or none is there.
void* load_some_library(std::string* path, uint64_t* base) {
  for (const auto& [name, function] : {std::make_pair("libthread_db.so.1", "td_init"),
                                       std::make_pair("libnss_compat.so.2", "_nss_compat_setpwent"),
                                       std::make_pair("libanl.so.1", "getaddrinfo_a")}) {
    if (::dlopen(name, RTLD_NOW | RTLD_NOLOAD) != nullptr) continue;
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    Dl_info info;
    void* const entry = ::dlsym(library, function);
    if (entry != nullptr && ::dladdr(entry, &info) != 0 && info.dli_saddr == entry) {
      *path = info.dli_fname;
      *base = address_of(info.dli_fbase);
      return library;
    }
    ::dlclose(library);
  }
  return nullptr;
}

}  // namespace

TEST(a_symbol_as_a_text) {
  Symbol symbol;
  CHECK(symbol.address == 0 && symbol.offset == 0 && symbol.module_offset == 0);
  CHECK_EQ(symbol.text(), "0x0");
  symbol.address = 0xFEDCBA9876543210;
  symbol.module_offset = 0x1234;
  symbol.offset = 0x12;
  CHECK_EQ(symbol.text(), "0xfedcba9876543210");
  symbol.module = "/usr/lib/libx.so";
  CHECK_EQ(symbol.file(), "libx.so");
  CHECK_EQ(symbol.text(), "libx.so+0x1234");
  symbol.function = "ns::f(int)";
  CHECK_EQ(symbol.text(), "ns::f(int)+0x12 (libx.so)");
  symbol.module = "program";
  CHECK_EQ(symbol.file(), "program");
  symbol.module = "/folder/";
  CHECK_EQ(symbol.file(), "");
}

TEST(names_are_demangled_without_their_versions) {
  CHECK_EQ(demangle("_Z3abc@@VERSION_1"), "abc");
  CHECK_EQ(demangle("abc@VERSION_1"), "abc");
  CHECK_EQ(demangle("@abc"), "@abc");
  CHECK_EQ(demangle("a_Z3abc"), "a_Z3abc");
  CHECK_EQ(demangle("_Y3abc"), "_Y3abc");
}

TEST(the_program_is_a_module) {
  ModuleMap map;
  CHECK(map.modules().empty());
  CHECK_EQ(map.find(address_of(&map)), -1);
  map.refresh();
  size_t programs = 0;
  for (const ModuleInfo& module : map.modules()) {
    CHECK(module.loaded && !module.segments.empty());
    CHECK_EQ(module.segments.size(), module.loads.size());
    for (size_t i = 0; i < module.segments.size(); ++i) {
      CHECK_EQ(module.segments[i].first, module.base + module.loads[i].first);
      CHECK(module.segments[i].second - module.segments[i].first >= module.loads[i].second);
    }
    if (!module.main) continue;
    ++programs;
    CHECK_EQ(module.path, recorder_checks::own_program());
    CHECK(!module.vdso);
  }
  CHECK_EQ(programs, 1u);
  static const int constant = 7;
  const int64_t index = map.find(address_of(&constant));
  CHECK(index >= 0 && map.modules()[static_cast<size_t>(index)].main);
  CHECK_EQ(map.find(0), -1);
  const size_t before = map.modules().size();
  map.refresh();
  map.refresh();
  CHECK_EQ(map.modules().size(), before);
}

TEST(modules_come_and_go_and_come_again) {
  ModuleMap map;
  map.refresh();
  const size_t before = map.modules().size();
  std::string path;
  uint64_t base = 0;
  void* const library = load_some_library(&path, &base);
  if (library == nullptr) SKIP("no library to load");
  CHECK_EQ(map.find(base), -1);
  map.refresh();
  const int64_t index = map.find(base);
  CHECK(index >= static_cast<int64_t>(before));
  if (index < 0) return;
  const auto at = static_cast<size_t>(index);
  CHECK_EQ(map.modules()[at].path, path);
  CHECK(map.modules()[at].loaded && !map.modules()[at].main && !map.modules()[at].vdso);
  const uint64_t end = map.modules()[at].segments.back().second;
  CHECK(map.find(end - 1) == index && map.find(end) != index && map.find(base - 1) != index);
  ::dlclose(library);
  if (::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD) != nullptr) SKIP("it stays loaded");
  map.refresh();
  CHECK(!map.modules()[at].loaded);
  CHECK_EQ(map.find(base), index);  // what was there is still known
  for (size_t i = 0; i < before; ++i) CHECK(map.modules()[i].loaded);
}

TEST(an_address_and_a_return_address_are_kept_apart) {
  Symbolizer symbols, others;
  const uint64_t start = address_of(reinterpret_cast<void*>(&std::qsort));
  const Symbol address = symbols.address(start);
  CHECK_EQ(symbols.cached(), 1u);
  const Symbol behind_call = symbols.return_address(start);
  CHECK_EQ(symbols.cached(), 2u);
  CHECK(address.offset == 0 && address.address == start && behind_call.address == start);
  CHECK(address.function != behind_call.function);  // the function before
  CHECK_EQ(address.module_offset, behind_call.module_offset);
  // In the other order, and again from the cache.
  for (int pass = 0; pass < 2; ++pass) {
    CHECK_EQ(others.return_address(start).function, behind_call.function);
    CHECK_EQ(others.address(start).function, address.function);
    CHECK_EQ(others.cached(), 2u);
  }
  const Symbol later = symbols.return_address(start + 1);
  CHECK(later.function == address.function && later.offset == 1);
}

TEST(modules_without_problems_have_none) {
  Symbolizer symbols;
  CHECK_EQ(symbols.problem(recorder_checks::own_program()), "");
  CHECK_EQ(symbols.problem("/no/such/module.so"), "");
  static int data = 0;
  symbols.address(address_of(&data));  // reads the program's table of functions
  CHECK_EQ(symbols.problem("/no/such/module.so"), "");
}
