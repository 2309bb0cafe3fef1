// SPDX-License-Identifier: Apache-2.0
// User ranges on the queues of devices: by hand, and random captures against the rule written out.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../check.hpp"
#include "capture_builder.hpp"
#include "fastprof/capture/annotate_device_rows.hpp"

namespace fp = fastprof;
using fastprof_test::CaptureBuilder;

namespace {

// (name, track, begin, end) of the rows of annotations, in order.
using Row = std::tuple<std::string, uint32_t, int64_t, int64_t>;

std::vector<Row> annotations(const fp::Capture& c) {
  std::vector<Row> found;
  for (size_t i = 0; i < c.size(); ++i) {
    const fp::SiteInfo& site = c.sites[c.site[i]];
    if (site.category == "gpu_user_annotation")
      found.emplace_back(site.name, c.track[i], c.start_ns[i] - c.t0_ns, c.end_ns[i] - c.t0_ns);
  }
  return found;
}

struct Builder : CaptureBuilder {
  uint32_t outer, inner, op, kernel, copy, fill, wait;

  Builder() {
    outer = user("outer");
    inner = user("inner");
    op = site("aten::mm", fp::EventKind::range, "cpu_op");
    capture.sites[op].mask = fp::category::op;
    kernel = device("gemm", "kernel");
    copy = device("Memcpy", "gpu_memcpy");
    fill = device("Memset", "gpu_memset");
    wait = device("wait", "cuda_sync");
    track(7, "main");
  }
  uint32_t user(const char* name) {
    const uint32_t made = site(name);
    capture.sites[made].mask = fp::category::user;
    return made;
  }
  uint32_t device(const char* name, const char* category) {
    const uint32_t made = site(name, fp::EventKind::range, category);
    capture.sites[made].mask = fp::category::device;
    capture.sites[made].device_type = 1;
    return made;
  }
  void queue(int device_index) { capture.tracks[track(0, "queue")].device_index = device_index; }
  // Work on the queue made last, launched by `call` in `range`.
  void work(uint32_t site, int64_t begin, int64_t end, int32_t range, int32_t call = 0) {
    const auto at = static_cast<uint32_t>(row(site, begin, end));
    capture.device_links.push_back({at, call, range, at});
  }
  fp::Capture& annotated() {
    fp::annotate_device_rows(finish());
    return capture;
  }
};

}  // namespace

TEST(a_range_covers_the_work_that_was_launched_in_it_on_each_queue) {
  Builder b;
  const auto outer = static_cast<int32_t>(b.row(b.outer, 0, 100));
  const auto inner = static_cast<int32_t>(b.row(b.inner, 10, 50));
  const auto op = static_cast<int32_t>(b.row(b.op, 20, 30));
  b.queue(0);
  b.work(b.kernel, 25, 40, op);
  b.work(b.copy, 60, 80, inner);
  b.work(b.fill, 120, 130, outer);
  b.queue(3);
  b.work(b.kernel, 200, 210, op);
  const fp::Capture& c = b.annotated();
  CHECK(annotations(c) == (std::vector<Row>{{"outer", 1, 25, 130},
                                            {"inner", 1, 25, 80},
                                            {"outer", 2, 200, 210},
                                            {"inner", 2, 200, 210}}));
  CHECK_EQ(c.size(), 11u);
  for (size_t i = 0; i < c.size(); ++i) {
    const fp::SiteInfo& site = c.sites[c.site[i]];
    if (site.category != "gpu_user_annotation") continue;
    CHECK_EQ(c.parent[i], fp::kNoParent);
    CHECK_EQ(site.device_index, c.track[i] == 1 ? 0 : 3);
  }
  // A site for each range and device; links by row: of annotations to their range, without a call.
  CHECK_EQ(c.sites.size(), 11u);
  std::vector<std::tuple<uint32_t, int32_t, int32_t>> links;
  for (const fp::DeviceLink& link : c.device_links)
    links.emplace_back(link.row, link.call, link.range);
  CHECK(links == (std::vector<std::tuple<uint32_t, int32_t, int32_t>>{{3, -1, outer},
                                                                      {4, -1, inner},
                                                                      {5, 0, op},
                                                                      {6, 0, inner},
                                                                      {7, 0, outer},
                                                                      {8, -1, outer},
                                                                      {9, -1, inner},
                                                                      {10, 0, op}}));
}

TEST(what_is_no_work_of_a_range_makes_no_annotation) {
  Builder b;
  const auto op = static_cast<int32_t>(b.row(b.op, 0, 5));
  const auto range = static_cast<int32_t>(b.row(b.outer, 10, 100));
  b.queue(0);
  b.work(b.kernel, 20, 30, -1);         // launched outside of any range
  b.work(b.kernel, 31, 35, op);         // in one that is not the user's
  b.work(b.kernel, 36, 40, range, -1);  // by an unknown call
  b.work(b.wait, 41, 45, range);        // no work
  const size_t size = b.capture.size();
  CHECK(annotations(b.annotated()).empty());
  CHECK_EQ(b.capture.size(), size);
  CHECK_EQ(b.capture.device_links.size(), 4u);
  // Calls of the runtime have links, too, on the track of a thread.
  Builder calls;
  const auto around = static_cast<int32_t>(calls.row(calls.outer, 0, 100));
  calls.work(calls.kernel, 20, 30, around);
  CHECK(annotations(calls.annotated()).empty());
}

TEST(random_captures_are_annotated_by_the_rule) {
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 200; ++round) {
    Builder b;
    // A thread whose rows begin in order; any of them may enclose others.
    const int ranges = 1 + below(8);
    for (int i = 0, at = 0; i < ranges; ++i, at += 1 + below(4)) {
      const uint32_t sites[] = {b.outer, b.inner, b.op};
      b.row(sites[below(3)], at, at + 1 + below(40));
    }
    const int queues = 1 + below(3);
    for (int queue = 0; queue < queues; ++queue) {
      b.queue(queue);
      const int works = below(6);
      for (int i = 0, at = 0; i < works; ++i) {
        at += below(3);
        const uint32_t sites[] = {b.kernel, b.copy, b.fill, b.wait};
        b.work(sites[below(4)], at, at + below(9), below(ranges + 1) - 1, below(4) - 1);
      }
    }
    const fp::Capture before = b.finish();
    std::map<std::pair<int32_t, uint32_t>, std::pair<int64_t, int64_t>> expected;
    for (const fp::DeviceLink& link : before.device_links) {
      if (link.call < 0 || before.sites[before.site[link.row]].category == "cuda_sync") continue;
      for (int32_t at = link.range; at >= 0; at = before.parent[static_cast<size_t>(at)]) {
        if (before.sites[before.site[static_cast<size_t>(at)]].mask != fp::category::user) continue;
        const auto [found, fresh] = expected.try_emplace(
            {at, before.track[link.row]}, before.start_ns[link.row], before.end_ns[link.row]);
        found->second.first = std::min(found->second.first, before.start_ns[link.row]);
        found->second.second = std::max(found->second.second, before.end_ns[link.row]);
      }
    }
    const fp::Capture& after = b.annotated();
    // What was there is there in its order, with its links; the rest is expected, and no more.
    std::multiset<std::tuple<int32_t, uint32_t, int64_t, int64_t>> made;
    std::vector<size_t> old_rows;
    for (size_t i = 0; i < after.size(); ++i)
      if (after.sites[after.site[i]].category != "gpu_user_annotation") old_rows.push_back(i);
    CHECK_EQ(old_rows.size(), before.size());
    for (size_t i = 0; i < old_rows.size(); ++i) {
      const size_t row = old_rows[i];
      CHECK(std::tie(after.start_ns[row], after.end_ns[row], after.site[row], after.track[row],
                     after.parent[row], after.payload[row], after.kind[row], after.flags[row]) ==
            std::tie(before.start_ns[i], before.end_ns[i], before.site[i], before.track[i],
                     before.parent[i], before.payload[i], before.kind[i], before.flags[i]));
    }
    size_t next = 0;
    uint32_t last_row = 0;
    for (const fp::DeviceLink& link : after.device_links) {
      CHECK(&link == &after.device_links.front() || link.row > last_row);
      last_row = link.row;
      const fp::SiteInfo& site = after.sites[after.site[link.row]];
      if (site.category == "gpu_user_annotation") {
        made.emplace(link.range, after.track[link.row], after.start_ns[link.row],
                     after.end_ns[link.row]);
        CHECK_EQ(site.name, before.sites[before.site[static_cast<size_t>(link.range)]].name);
        continue;
      }
      const fp::DeviceLink& was = before.device_links[next++];
      CHECK_EQ(link.row, old_rows[was.row]);
      CHECK(std::tie(link.call, link.range, link.correlation) ==
            std::tie(was.call, was.range, was.correlation));
    }
    CHECK_EQ(made.size(), expected.size());
    for (const auto& [key, times] : expected)
      CHECK_EQ(made.count({key.first, key.second, times.first, times.second}), 1u);
    // Rows of a track begin in order, the longer first if one of them is an annotation.
    for (size_t i = 1; i < after.size(); ++i)
      if (after.track[i] == after.track[i - 1]) CHECK(after.start_ns[i] >= after.start_ns[i - 1]);
  }
}
