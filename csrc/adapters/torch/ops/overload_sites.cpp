// SPDX-License-Identifier: Apache-2.0
// Prototype sites with overload names: see overload_sites.hpp.
#include "adapters/torch/ops/overload_sites.hpp"

#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "fastprof/recorder/hot_path/intern.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

struct Made {
  std::mutex lock;
  std::map<std::pair<const Site*, std::string>, Site> sites;
};
Made& all_made() {
  static Made& made = *new Made;
  return made;
}

}  // namespace

const Site& site_with_overload(const Site& like, const char* overload) noexcept {
  if (overload == nullptr || overload[0] == '\0') return like;
  try {
    Made& made = all_made();
    const std::lock_guard<std::mutex> hold(made.lock);
    const auto [at, fresh] = made.sites.try_emplace({&like, overload}, like);
    if (fresh) at->second.function = intern_string(overload);
    return at->second;
  } catch (...) {  // no memory: recorded without the overload
    return like;
  }
}

void renew_overload_sites_in_child() noexcept {
  try {
    new (&all_made().lock) std::mutex;
  } catch (...) {  // no memory: none exist
  }
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
