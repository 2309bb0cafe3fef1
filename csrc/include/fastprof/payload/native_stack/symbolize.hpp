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
#include "fastprof/payload/native_stack/elf_image.hpp"
#include "fastprof/payload/native_stack/module_map.hpp"

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
    for (size_t i = 0; i < images_.size(); ++i)
      if (images_[i] != nullptr && modules_.modules()[i].path == module_path)
        return images_[i]->problem;
    return {};
  }

  // Returns the number of cached addresses.
  size_t cached() {
    const std::lock_guard<std::mutex> hold(lock_);
    return cache_.size();
  }

 private:
  struct LoadedImage {
    ElfImage elf;
    std::string problem;
  };
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
      const ElfImage& elf = image(static_cast<size_t>(index))->elf;
      if (const ElfFunction* function = elf.find(inside - module.base)) {
        symbol.mangled = elf.name(*function);
        symbol.function = demangle(symbol.mangled);
        if (!symbol.function.empty()) symbol.offset = symbol.module_offset - function->value;
      }
    }
    if (cache_.size() >= kMaxCached) cache_.clear();
    return cache_.emplace(key, std::move(symbol)).first->second;
  }

  static bool same_file(const ElfImage& elf, const ModuleInfo& module) {
    return elf.build_id() == module.build_id && elf.loads() == module.loads;
  }

  LoadedImage* image(size_t index) {
    if (images_.size() <= index) images_.resize(index + 1);
    if (images_[index] != nullptr) return images_[index].get();
    images_[index] = std::make_unique<LoadedImage>();
    LoadedImage* image = images_[index].get();
    const ModuleInfo& module = modules_.modules()[index];
    image->elf.load(bytes_of(module));
    image->problem = image->elf.problem();
    if (!image->elf.loads().empty() && !same_file(image->elf, module)) {
      image->elf = ElfImage();
      image->problem = "the file was replaced since it was loaded";
    }
    if (load_debug_file(module, &image->elf)) image->problem.clear();
    return image;
  }

  static ElfBytes bytes_of(const ModuleInfo& module) {
    if (!module.vdso) return ElfBytes(module.main ? std::string("/proc/self/exe") : module.path);
    if (!module.loaded || module.segments.empty()) return ElfBytes();
    // The vdso is a complete file in memory; its section headers follow the segment in its last
    // page.
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const auto& segment = module.segments.front();
    const uint64_t size = (segment.second - segment.first + page - 1) / page * page;
    return ElfBytes(reinterpret_cast<const void*>(segment.first), size);
  }

  // Distributions install the full symbols of stripped files separately, by build id.
  static bool load_debug_file(const ModuleInfo& module, ElfImage* elf) {
    if (elf->full_symbols() || module.build_id.size() < 4) return false;
    const std::string path = "/usr/lib/debug/.build-id/" + module.build_id.substr(0, 2) + "/" +
                             module.build_id.substr(2) + ".debug";
    ElfBytes bytes(path);
    if (!bytes.is_open()) return false;
    ElfImage debug;
    debug.load(std::move(bytes));
    if (!debug.problem().empty() || !debug.full_symbols() || debug.build_id() != module.build_id)
      return false;
    *elf = std::move(debug);
    return true;
  }

  std::mutex lock_;
  ModuleMap modules_;
  std::vector<std::unique_ptr<LoadedImage>> images_;  // by module index
  std::unordered_map<uint64_t, Symbol> cache_;
};

FASTPROF_NAMESPACE_END
