// SPDX-License-Identifier: Apache-2.0
// ModuleMap: maps addresses of this process to the loaded modules and those unloaded since.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/module_info.hpp"
#include "fastprof/platform/images.hpp"
#include "fastprof/platform/process.hpp"

FASTPROF_NAMESPACE_BEGIN

// Only grows: the index of a module never changes. Not thread-safe.
class ModuleMap {
 public:
  // Updates the list of loaded modules; cheap if nothing changed. Call it before modules whose
  // addresses are resolved later are unloaded. Takes the loader's lock: do not call from a
  // visitor of for_each_image().
  void refresh() {
    std::vector<ModuleInfo> found;
    bool unchanged = false;
    platform::for_each_image([&](const platform::Image& image) {
      uint64_t adds = 0, subs = 0;
      if (image.changes(&adds, &subs)) {
        unchanged = found.empty() && adds == adds_ && subs == subs_;
        if (unchanged) return false;
        adds_ = adds;
        subs_ = subs;
      }
      found.push_back(describe(image));
      return true;
    });
    if (unchanged) return;
    for (ModuleInfo& known : modules_) known.loaded = false;
    for (ModuleInfo& fresh : found) {
      ModuleInfo* known = nullptr;
      for (ModuleInfo& module : modules_)
        if (module.base == fresh.base && module.path == fresh.path &&
            module.build_id == fresh.build_id && module.segments == fresh.segments)
          known = &module;
      if (known != nullptr) {
        known->loaded = true;
      } else {
        modules_.push_back(std::move(fresh));
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
  static ModuleInfo describe(const platform::Image& image) {
    ModuleInfo module;
    module.base = image.base();
    module.main = image.is_program();
    module.path = image.path();
    module.vdso = image.is_of_the_kernel();
    module.build_id = image.build_id();
    image.for_each_segment([&](const platform::Segment& segment) {
      module.segments.emplace_back(segment.first, segment.first + segment.bytes);
      module.loads.emplace_back(segment.linked, segment.file_bytes);
    });
    if (module.main && module.path.empty()) {
      char target[4096];
      module.path.assign(target, platform::read_program_path(target, sizeof target));
    }
    return module;
  }

  std::vector<ModuleInfo> modules_;
  uint64_t adds_ = 0;
  uint64_t subs_ = 0;
};

FASTPROF_NAMESPACE_END
