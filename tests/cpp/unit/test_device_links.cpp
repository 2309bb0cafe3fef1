// SPDX-License-Identifier: Apache-2.0
// What launched the work of a device: calls found by their correlations, the ranges of calls, and
// the numbers of arrows.
#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "capture_builder.hpp"
#include "check.hpp"
#include "fastprof/capture/correlation_index.hpp"
#include "fastprof/capture/link_device_rows.hpp"
#include "fastprof/export/device_links.hpp"

using namespace fastprof;
using fastprof_test::CaptureBuilder;

namespace {

using Entries = std::vector<std::pair<uint32_t, uint32_t>>;  // correlation, value
constexpr uint32_t kNone = CorrelationIndex::kNone;

CorrelationIndex index_of(const Entries& entries) {
  CorrelationIndex index;
  index.reserve(entries.size());
  for (const auto& [correlation, value] : entries) index.add(correlation, value);
  index.finish();
  return index;
}

// (row, call, range, correlation)
using Link = std::tuple<uint32_t, int32_t, int32_t, uint32_t>;
std::vector<Link> links_of(const Capture& capture) {
  std::vector<Link> links;
  for (const DeviceLink& link : capture.device_links)
    links.emplace_back(link.row, link.call, link.range, link.correlation);
  return links;
}

struct Builder : CaptureBuilder {
  uint32_t range = masked("range", category::user);

  uint32_t masked(const char* name, uint32_t mask,
                  std::vector<std::pair<std::string, ArgType>> args = {}) {
    const uint32_t made = site(name, EventKind::range, "x", std::move(args));
    capture.sites[made].mask = mask;
    return made;
  }
};

}  // namespace

TEST(an_index_of_any_correlations_finds_them) {
  std::mt19937 random(9);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random()) % n; };
  for (int round = 0; round < 200; ++round) {
    // Around the limit between a table and a search: 1024 and four times the entries.
    const uint32_t count = 1 + below(20), span = 1 + below(3000);
    Entries entries;
    std::map<uint32_t, uint32_t> expected;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t correlation = 1 + below(span), value = below(100);
      entries.emplace_back(correlation, value);
      const auto [at, fresh] = expected.try_emplace(correlation, value);
      at->second = std::min(at->second, value);
    }
    const CorrelationIndex index = index_of(entries);
    for (uint32_t correlation = 0; correlation < span + 2; ++correlation) {
      const auto found = expected.find(correlation);
      CHECK_EQ(index.find(correlation), found == expected.end() ? kNone : found->second);
    }
  }
}

TEST(work_belongs_to_the_call_of_its_correlation) {
  Builder b;
  const uint32_t call = b.masked("launch", category::runtime,
                                 {{"a", ArgType::uint64}, {"correlation", ArgType::uint64}}),
                 bare = b.masked("sync", category::runtime),
                 python = b.masked("f", category::python_call),
                 work = b.masked("kernel", category::device, {{"correlation", ArgType::uint64}}),
                 other = b.masked("other", category::device | category::user,
                                  {{"correlation", ArgType::uint64}});
  b.track(1, "main");
  b.row(call, 0, 1, {99, 3});  // in no range
  b.row(b.range, 10, 100);
  b.row(python, 20, 90);
  b.row(call, 30, 50, {99, 7});
  b.row(call, 35, 40, {99, 7});  // of the driver, in that of the runtime
  b.row(bare, 55, 56);
  b.row(call, 60, 61, {99, 0});
  b.row(call, 62, 63);  // without its arguments
  b.capture.tracks[b.track(7, "queue")].device_index = 0;
  b.row(work, 40, 45, {7});
  b.row(work, 46, 47, {3});
  b.row(work, 48, 49, {8});  // of a call that is not there
  b.row(work, 50, 51, {0});
  b.row(other, 52, 53, {7});
  b.row(work, 60, 61, {7});
  Capture& capture = b.finish();
  capture.device_links = {{0, 0, 0, 0}};  // are made anew
  link_device_rows(capture);
  CHECK(links_of(capture) == (std::vector<Link>{{0, -1, -1, 3},
                                                {3, -1, 1, 7},
                                                {4, -1, 1, 7},
                                                {5, -1, 1, 0},
                                                {6, -1, 1, 0},
                                                {7, -1, 1, 0},
                                                {8, 3, 1, 7},
                                                {9, 0, -1, 3},
                                                {10, -1, -1, 8},
                                                {11, -1, -1, 0},
                                                {13, 3, 1, 7}}));
}

TEST(the_first_row_may_be_a_range_that_launches) {
  Builder b;
  const uint32_t call = b.masked("launch", category::runtime, {{"correlation", ArgType::uint64}}),
                 task = b.masked("task", category::task);
  b.track(1, "main");
  b.row(b.range, 0, 100);
  b.row(task, 10, 90);
  b.row(call, 20, 30, {1});
  link_device_rows(b.finish());
  CHECK(links_of(b.capture) == (std::vector<Link>{{2, -1, 0, 1}}));
  Builder none;  // without devices
  none.track(1, "main");
  none.row(none.range, 0, 1);
  none.finish().device_links = {{0, 0, 0, 0}};
  link_device_rows(none.capture);
  CHECK(none.capture.device_links.empty());
}
