// SPDX-License-Identifier: Apache-2.0
// CodeRanges: where the loaded objects have code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/payload/native_stack/unwind_cache.hpp"
#include "fastprof/platform/images.hpp"

FASTPROF_NAMESPACE_BEGIN

// Use from one thread.
class CodeRanges {
 public:
  // Reads the list if objects were loaded or unloaded since; true if it did. Takes the loader's
  // lock. Rules of unloaded code are then forgotten.
  bool refresh() {
    std::vector<std::pair<uintptr_t, uintptr_t>> found;
    bool unchanged = false;
    platform::for_each_image([&](const platform::Image& image) {
      uint64_t loads = 0, unloads = 0;
      if (found.empty() && image.changes(&loads, &unloads)) {
        unchanged = !ranges_.empty() && loads == loads_ && unloads == unloads_;
        if (unchanged) return false;
        loads_ = loads;
        unloads_ = unloads;
      }
      image.for_each_segment([&found](const platform::Segment& segment) {
        if (segment.executable) found.emplace_back(segment.first, segment.first + segment.bytes);
      });
      return true;
    });
    if (unchanged) return false;
    std::sort(found.begin(), found.end());
    ranges_.swap(found);
    clear_unwind_cache();
    return true;
  }

  bool contains(uintptr_t address) const noexcept {
    auto after =
        std::upper_bound(ranges_.begin(), ranges_.end(), std::make_pair(address, ~uintptr_t{0}));
    return after != ranges_.begin() && address < (--after)->second;
  }

  // The rule for a return address. Looks up unknown ones under the loader's lock, so that the
  // tables cannot be unloaded meanwhile.
  static UnwindRule rule(uintptr_t return_address) noexcept {
    using namespace unwind_detail;
    if (return_address >> 48 != 0) return UnwindRule{};
    const uint64_t word = load_relaxed(cache_entry(return_address));
    if (word != 0 && ((word ^ cache_tag(return_address)) >> 28) == 0)
      return unpack_rule(word & ((1u << 28) - 1));
    UnwindRule rule{};
    platform::for_each_image([&](const platform::Image& image) {
      bool is_here = false;
      image.for_each_segment([&](const platform::Segment& segment) {
        is_here = is_here || (segment.executable && segment.holds(return_address - 1));
      });
      if (is_here) rule = cached_unwind_rule(return_address);
      return !is_here;
    });
    return rule;
  }

 private:
  std::vector<std::pair<uintptr_t, uintptr_t>> ranges_;
  uint64_t loads_ = 0;
  uint64_t unloads_ = 0;
};

FASTPROF_NAMESPACE_END
