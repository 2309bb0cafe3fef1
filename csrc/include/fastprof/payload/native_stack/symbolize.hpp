// SPDX-License-Identifier: Apache-2.0
// Symbolizer: resolves code addresses of this process to function, module and offsets, on demand,
// with a cache. No source lines; for those, run `addr2line -e <module> <module offset>`, which
// reads DWARF.
#pragma once

#include <cxxabi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/payload/native_stack/module_map.hpp"
#include "fastprof/platform/function_table.hpp"

FASTPROF_NAMESPACE_BEGIN

// The resolution of one code address.
struct Symbol {
  std::string function;  // demangled; empty if unknown
  std::string mangled;   // as in the symbol table
  std::string module;    // path of the file; empty if the address is in no known module
  uint64_t address = 0;
  uint64_t offset = 0;         // from the start of the function; 0 if unknown
  uint64_t module_offset = 0;  // the linked address, as addr2line takes it

  // Returns the name of the module's file: what is behind the last slash of `module`.
  std::string file() const { return module.substr(module.rfind('/') + 1); }

  // Returns "function+0x12 (libx.so)", "libx.so+0x1234" or "0x7f...".
  std::string text() const {
    char hex[32];
    const uint64_t shown = !function.empty() ? offset : !module.empty() ? module_offset : address;
    std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(shown));
    if (!function.empty()) return function + "+" + hex + " (" + file() + ")";
    return module.empty() ? std::string(hex) : file() + "+" + hex;
  }
};

// Demangles a C++ name and strips a symbol version (@GLIBC_2.34). Returns names that are not
// mangled, or longer than 16 KB (the demangler's time and memory grow faster than linearly),
// without demangling.
inline std::string demangle(const std::string& mangled) {
  const size_t version = mangled.find('@');
  const std::string name =
      version == std::string::npos || version == 0 ? mangled : mangled.substr(0, version);
  if (name.compare(0, 2, "_Z") != 0 || name.size() > 16384) return name;
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? std::string(text) : name;
  std::free(text);
  return result;
}

// All members are thread-safe. Reads files and allocates: not for the hot path. Each file is read
// once, when its first address is resolved. A file whose build id or segments differ from those of
// the loaded module was replaced since and is not used.
class Symbolizer {
 public:
  Symbolizer() { modules_.refresh(); }

  // Updates the list of loaded modules. Resolved addresses keep their names; addresses in modules
  // unloaded since are resolved from the files they came from.
  void refresh() {
    const std::lock_guard<std::mutex> hold(lock_);
    modules_.refresh();
  }

  // Resolves the function that contains this address.
  Symbol address(uint64_t address) { return look_up(address, address); }
  // Resolves the function whose call returns to this address. (Looks up address - 1: the call may
  // be the last instruction of a function.)
  Symbol return_address(uint64_t address) { return look_up(address, address - 1); }

  // Returns why the functions of a module are unknown; empty if they are known or were not needed
  // yet.
  std::string problem(const std::string& module_path) {
    const std::lock_guard<std::mutex> hold(lock_);
    for (size_t i = 0; i < tables_.size(); ++i)
      if (tables_[i] != nullptr && modules_.modules()[i].path == module_path)
        return tables_[i]->problem();
    return {};
  }

  // Returns the number of cached addresses.
  size_t cached() {
    const std::lock_guard<std::mutex> hold(lock_);
    return cache_.size();
  }

 private:
  static constexpr size_t kMaxCached = size_t{1} << 20;

  Symbol look_up(uint64_t address, uint64_t inside) {
    const std::lock_guard<std::mutex> hold(lock_);
    // The top bit of a code address is unused.
    const uint64_t key = address * 2 + (address != inside ? 1 : 0);
    const auto found = cache_.find(key);
    if (found != cache_.end()) return found->second;
    int64_t index = modules_.find(inside);
    if (index < 0) {
      modules_.refresh();
      index = modules_.find(inside);
    }
    Symbol symbol;
    symbol.address = address;
    if (index >= 0) {
      const ModuleInfo& module = modules_.modules()[static_cast<size_t>(index)];
      symbol.module = module.path;
      symbol.module_offset = address - module.base;
      uint64_t start = 0;
      if (functions(static_cast<size_t>(index))
              ->find(inside - module.base, &symbol.mangled, &start)) {
        symbol.function = demangle(symbol.mangled);
        if (!symbol.function.empty()) symbol.offset = symbol.module_offset - start;
      }
    }
    if (cache_.size() >= kMaxCached) cache_.clear();
    return cache_.emplace(key, std::move(symbol)).first->second;
  }

  platform::FunctionTable* functions(size_t index) {
    if (tables_.size() <= index) tables_.resize(index + 1);
    if (tables_[index] == nullptr) {
      tables_[index] = std::make_unique<platform::FunctionTable>();
      tables_[index]->load(modules_.modules()[index]);
    }
    return tables_[index].get();
  }

  std::mutex lock_;
  ModuleMap modules_;
  std::vector<std::unique_ptr<platform::FunctionTable>> tables_;  // by module index
  std::unordered_map<uint64_t, Symbol> cache_;
};

FASTPROF_NAMESPACE_END
