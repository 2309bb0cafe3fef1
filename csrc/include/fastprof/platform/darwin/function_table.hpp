// SPDX-License-Identifier: Apache-2.0
// The functions of one module, as dladdr(3) names them. On Darwin dladdr reads the whole symbol
// table of a loaded image, local symbols included, and covers the system's libraries, which do not
// exist as files.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/module_info.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Not thread-safe. Allocates.
class FunctionTable {
 public:
  void load(const ModuleInfo& module) {
    base_ = module.base;
    segments_ = module.segments;
    if (!module.loaded) problem_ = "the module was unloaded before its functions were looked up";
  }

  // Finds the function that contains a linked address: its symbol and its linked start.
  bool find(uint64_t linked, std::string* symbol, uint64_t* start) const {
    if (!problem_.empty()) return false;
    Dl_info found{};
    const auto address = static_cast<uintptr_t>(base_ + linked);
    if (::dladdr(reinterpret_cast<void*>(address), &found) == 0 || found.dli_sname == nullptr)
      return false;
    const uint64_t first = reinterpret_cast<uintptr_t>(found.dli_saddr);
    bool ours = false;  // false: another module has been loaded at the address since
    for (const auto& segment : segments_)
      ours = ours || (first >= segment.first && first < segment.second);
    if (!ours) return false;
    *symbol = found.dli_sname;
    *start = first - base_;
    return true;
  }

  // Why functions are unavailable; empty if they are available.
  const std::string& problem() const noexcept { return problem_; }

 private:
  uint64_t base_ = 0;
  std::vector<std::pair<uint64_t, uint64_t>> segments_;
  std::string problem_;
};

}  // namespace platform
FASTPROF_NAMESPACE_END
