// SPDX-License-Identifier: Apache-2.0
// The functions of one module, from the symbol tables of its ELF file, or of the debug file that
// distributions install separately.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/module_info.hpp"
#include "fastprof/platform/linux/elf_image.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Not thread-safe. Reads files and allocates.
class FunctionTable {
 public:
  // Reads the module's file. A file whose build id or segments differ from those of the loaded
  // module was replaced since and is not used.
  void load(const ModuleInfo& module) {
    elf_.load(bytes_of(module));
    problem_ = elf_.problem();
    if (!elf_.loads().empty() && !same_file(elf_, module)) {
      elf_ = ElfImage();
      problem_ = "the file was replaced since it was loaded";
    }
    if (load_debug_file(module, &elf_)) problem_.clear();
  }

  // Finds the function that contains a linked address: its symbol and its linked start.
  bool find(uint64_t linked, std::string* symbol, uint64_t* start) const {
    const ElfFunction* function = elf_.find(linked);
    if (function == nullptr) return false;
    *symbol = elf_.name(*function);
    *start = function->value;
    return true;
  }

  // Why there are no functions; empty if there are.
  const std::string& problem() const noexcept { return problem_; }

 private:
  static bool same_file(const ElfImage& elf, const ModuleInfo& module) {
    return elf.build_id() == module.build_id && elf.loads() == module.loads;
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

  ElfImage elf_;
  std::string problem_;
};

}  // namespace platform
FASTPROF_NAMESPACE_END
