// SPDX-License-Identifier: Apache-2.0
// Counts of calls by function: see call_counts.hpp.
#include "adapters/python/call_counts.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>
#include <unordered_map>

#include "adapters/python/gil_substitute.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kWindow = 1000;             // calls between two decisions about a function
constexpr int64_t kShortNs = 20'000;           // first bound of their mean distance
constexpr uint64_t kWindowsPerDoubling = 200;  // recorded windows after which it doubles
constexpr uint64_t kMostDoublings = 20;

struct CallCount {
  const Site* site;
  Clock::time_point window_began;
  uint64_t summed;   // calls that were counted only
  uint32_t calls;    // of the current window
  bool is_frequent;  // as decided at the end of the last window
};

struct Counts {
  std::unordered_map<const Site*, CallCount> by_site;
  CallCount* recent[1024] = {};  // direct-mapped cache by address
  uint64_t windows_recorded = 0;
  GilSubstitute lock;
};

Counts& counts() {
  static auto* only = new Counts;
  return *only;
}

CallCount* count_of(Counts& all, const Site* site) {
  CallCount*& recent =
      all.recent[(reinterpret_cast<uintptr_t>(site) / sizeof(Site)) % std::size(all.recent)];
  if (recent == nullptr || recent->site != site)
    recent =
        &all.by_site.try_emplace(site, CallCount{site, Clock::now(), 0, 0, false}).first->second;
  return recent;
}

void end_window(Counts& all, CallCount& count) {
  const Clock::time_point now = Clock::now();
  if (!count.is_frequent) ++all.windows_recorded;
  const auto distance_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(now - count.window_began).count() /
      kWindow;
  const uint64_t doublings = std::min(all.windows_recorded / kWindowsPerDoubling, kMostDoublings);
  count.is_frequent = distance_ns < kShortNs << doublings;
  count.window_began = now;
  count.calls = 0;
}

}  // namespace

bool count_call(const Site* site) noexcept {
  Counts& all = counts();
  const HoldGilSubstitute hold(all.lock);
  try {
    CallCount& count = *count_of(all, site);
    if (++count.calls > kWindow) end_window(all, count);
    if (count.is_frequent) ++count.summed;
    return !count.is_frequent;
  } catch (const std::bad_alloc&) {
    return true;
  }
}

std::vector<std::pair<std::string, uint64_t>> summed_calls() {
  Counts& all = counts();
  const HoldGilSubstitute hold(all.lock);
  std::vector<std::pair<std::string, uint64_t>> found;
  for (const auto& [site, count] : all.by_site)
    if (count.summed != 0) found.emplace_back(site->name, count.summed);
  return found;
}

void forget_call_counts() noexcept {
  Counts& all = counts();
  const HoldGilSubstitute hold(all.lock);
  all.by_site.clear();
  std::fill(std::begin(all.recent), std::end(all.recent), nullptr);
  all.windows_recorded = 0;
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
