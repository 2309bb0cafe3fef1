// SPDX-License-Identifier: Apache-2.0
// Entry point of the collector for ITT: replaces the functions of each copy of ittnotify in the
// process by ours, which record its calls.
#include <cstring>

#include "backends/annotations/fork.hpp"
#include "backends/annotations/own_recording.hpp"
#include "backends/itt/collector/collected_calls.hpp"
#include "backends/itt/itt_abi.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace itt {
namespace {

void attach(Global* global) noexcept {
  if (global == nullptr || std::memcmp(global->magic, kMagic, sizeof kMagic) != 0 ||
      global->version_major != 3 || global->api_list == nullptr)
    return;
  annotations::watch_forks();
  watch_forks_of_calls();
  annotations::start_own_recording();
  for (ApiInfo* info = global->api_list; info->name != nullptr; ++info)
    for (const CollectedCall& call : collected_calls)
      if (std::strcmp(info->name, call.name) == 0) *info->function = call.function;
}

}  // namespace
}  // namespace itt
FASTPROF_NAMESPACE_END

// ittnotify calls it once for each binary that contains it, at its first call.
extern "C" __attribute__((visibility("default"))) void __itt_api_init(fastprof::itt::Global* global,
                                                                      uint32_t /*groups*/) {
  fastprof::itt::attach(global);
}
