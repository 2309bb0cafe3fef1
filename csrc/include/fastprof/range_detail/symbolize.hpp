// SPDX-License-Identifier: Apache-2.0
// Names for code addresses of this process, looked up when asked for and remembered.
// Function, module and offsets; no source lines (those need DWARF: `addr2line -e <module> <module
// offset>` gives them).
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
#include "fastprof/range_detail/elf_image.hpp"
#include "fastprof/range_detail/module_map.hpp"

FASTPROF_NAMESPACE_BEGIN

struct Symbol {
  std::string function;  // demangled; empty when not known
  std::string mangled;   // as in the file
  std::string module;    // path of the file; empty when the address lies in no known module
  uint64_t address = 0;
  uint64_t offset = 0;         // from the start of the function, 0 if it is not known
  uint64_t module_offset = 0;  // the address as linked: what addr2line takes

  // "function+0x12 (libx.so)", "libx.so+0x1234", or "0x7f..."
  std::string text() const {
    char hex[32];
    const size_t slash = module.rfind('/');
    const std::string file = slash == std::string::npos ? module : module.substr(slash + 1);
    const uint64_t shown = !function.empty() ? offset : !module.empty() ? module_offset : address;
    std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(shown));
    if (!function.empty()) return function + "+" + hex + " (" + file + ")";
    return module.empty() ? std::string(hex) : file + "+" + hex;
  }
};

// The C++ name of a mangled one, without a symbol version (@GLIBC_2.34); the name itself when it is
// not a mangled one, or longer than 16 KB (the demangler's time and memory grow faster than the
// name).
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

// All members may be called from any thread. Control plane: reads files, allocates. Each file is
// read once, at the first address in it; a file whose build id or segments differ from those loaded
// (replaced since) is not used.
class Symbolizer {
 public:
  Symbolizer() { modules_.refresh(); }

  // Notes the modules loaded now. What was resolved keeps its names; addresses in modules unloaded
  // since a refresh are resolved by the files they came from.
  void refresh() {
    const std::lock_guard<std::mutex> hold(lock_);
    modules_.refresh();
  }

  // The function that contains this address, and where in it.
  Symbol address(uint64_t address) { return look_up(address, address); }
  // The function that made the call that returns to this address: a call may be a function's last
  // instruction.
  Symbol return_address(uint64_t address) { return look_up(address, address - 1); }

  // Why the functions of a module are not known; empty if they are or nobody asked yet.
  std::string problem(const std::string& module_path) {
    const std::lock_guard<std::mutex> hold(lock_);
    for (size_t i = 0; i < images_.size(); ++i)
      if (images_[i] != nullptr && modules_.modules()[i].path == module_path)
        return images_[i]->problem;
    return {};
  }

  // Addresses remembered.
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
    const uint64_t key =
        address * 2 + (address != inside ? 1 : 0);  // code addresses leave the top bit free
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
    // The vdso is a whole file in memory; its section headers lie behind the segment, in its last
    // page.
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const auto& segment = module.segments.front();
    const uint64_t size = (segment.second - segment.first + page - 1) / page * page;
    return ElfBytes(reinterpret_cast<const void*>(segment.first), size);
  }

  // Distributions keep the full symbols of stripped files apart, by build id.
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
