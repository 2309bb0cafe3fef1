// SPDX-License-Identifier: Apache-2.0
// ModuleMap: maps addresses of this process to the loaded modules and those unloaded since.
#pragma once

#include <link.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/payload/native_stack/elf_image.hpp"

FASTPROF_NAMESPACE_BEGIN

// An executable, shared library or the vdso, as of the refresh that found it.
struct ModuleInfo {
  std::string path;      // as the loader reports it; executable: target of /proc/self/exe
  std::string build_id;  // lower-case hexadecimal; empty if it has none
  uint64_t base = 0;     // load address minus linked address
  std::vector<std::pair<uint64_t, uint64_t>> segments;  // [first, last) addresses
  std::vector<std::pair<uint64_t, uint64_t>> loads;  // (linked address, file size) of each PT_LOAD
  bool main = false;
  bool vdso = false;
  bool loaded = true;  // at the last refresh

  bool contains(uint64_t address) const noexcept {
    for (const auto& segment : segments)
      if (address >= segment.first && address < segment.second) return true;
    return false;
  }
};

// Only grows: the index of a module never changes. Not thread-safe.
class ModuleMap {
 public:
  // Updates the list of loaded modules; cheap if nothing changed. Call it before modules whose
  // addresses are resolved later are unloaded. Takes the loader's lock: do not call from a
  // dl_iterate_phdr callback.
  void refresh() {
    Visit visit;
    visit.known_adds = adds_;
    visit.known_subs = subs_;
    ::dl_iterate_phdr(&ModuleMap::visit_module, &visit);
    if (visit.unchanged) return;
    adds_ = visit.adds;
    subs_ = visit.subs;
    for (ModuleInfo& known : modules_) known.loaded = false;
    for (ModuleInfo& seen : visit.modules) {
      ModuleInfo* known = nullptr;
      for (ModuleInfo& module : modules_)
        if (module.base == seen.base && module.path == seen.path &&
            module.build_id == seen.build_id && module.segments == seen.segments)
          known = &module;
      if (known != nullptr) {
        known->loaded = true;
      } else {
        modules_.push_back(std::move(seen));
      }
    }
  }

  const std::vector<ModuleInfo>& modules() const noexcept { return modules_; }

  // Returns the index of the module at an address: a loaded one, else the last one found there; -1
  // if there is none.
  int64_t find(uint64_t address) const noexcept {
    int64_t gone = -1;
    for (size_t i = modules_.size(); i-- > 0;) {
      if (!modules_[i].contains(address)) continue;
      if (modules_[i].loaded) return static_cast<int64_t>(i);
      if (gone < 0) gone = static_cast<int64_t>(i);
    }
    return gone;
  }

 private:
  struct Visit {
    std::vector<ModuleInfo> modules;
    uint64_t known_adds = 0, known_subs = 0;
    uint64_t adds = 0, subs = 0;
    bool first = true;
    bool unchanged = false;
  };
  static int visit_module(dl_phdr_info* info, size_t size, void* argument) {
    auto* visit = static_cast<Visit*>(argument);
    const bool first = visit->first;
    visit->first = false;
    if (size >= offsetof(dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
      visit->adds = info->dlpi_adds;
      visit->subs = info->dlpi_subs;
      if (first && visit->adds == visit->known_adds && visit->subs == visit->known_subs) {
        visit->unchanged = true;
        return 1;
      }
    }
    ModuleInfo module;
    module.base = info->dlpi_addr;
    module.main = first;
    module.path = info->dlpi_name != nullptr ? info->dlpi_name : "";
    module.vdso = module.path.compare(0, 10, "linux-vdso") == 0 ||
                  module.path.compare(0, 10, "linux-gate") == 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info->dlpi_phdr[i];
      if (segment.p_type == PT_LOAD) {
        const uint64_t start = info->dlpi_addr + segment.p_vaddr;
        module.segments.emplace_back(start, start + segment.p_memsz);
        module.loads.emplace_back(segment.p_vaddr, segment.p_filesz);
      }
      if (segment.p_type == PT_NOTE && module.build_id.empty())
        module.build_id = build_id_of_notes(
            reinterpret_cast<const uint8_t*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz);
    }
    if (first && module.path.empty()) {
      char target[4096];
      const ssize_t length = ::readlink("/proc/self/exe", target, sizeof target);
      if (length > 0) module.path.assign(target, static_cast<size_t>(length));
    }
    visit->modules.push_back(std::move(module));
    return 0;
  }

  std::vector<ModuleInfo> modules_;
  uint64_t adds_ = 0;
  uint64_t subs_ = 0;
};

FASTPROF_NAMESPACE_END
