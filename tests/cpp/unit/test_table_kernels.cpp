// SPDX-License-Identifier: Apache-2.0
// Attribution of memory to ranges, trees of lists, sums by group: small hand-written cases, and
// invalid columns. tests/python/unit/test_table_kernels.py compares them with NumPy.
#include <limits>
#include <vector>

#include "../check.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/group_sums.hpp"
#include "fastprof/capture/listed_rows.hpp"
#include "fastprof/capture/memory_usage.hpp"

using namespace fastprof;
using Longs = std::vector<int64_t>;
using Ints = std::vector<int32_t>;

namespace {

constexpr SiteKind kRange = SiteKind::range, kMemory = SiteKind::memory;

// outer(inner(4 bytes of the CPU), 2 of a device), then a record of 8 bytes in no range.
struct Table {
  std::vector<SiteKind> kind = {kRange, kRange, kMemory, kMemory, kMemory};
  Ints parent = {-1, 0, 1, 0, -1};
  std::vector<uint32_t> payload = {kNone, kNone, 0, 4, 8}, site = {0, 0, 1, 2, 1};
  std::vector<uint64_t> words = {1, 4, 0, 0, 1, 2, 0, 0, 1, 8, 0, 0};
  std::vector<bool> cpu_sites = {false, true, false};

  MemoryUsage usage() const {
    MemoryRows rows;
    rows.rows = kind.size();
    rows.kind = kind.data();
    rows.parent = parent.data();
    rows.payload = payload.data();
    rows.site = site.data();
    rows.words = words.data();
    rows.words_count = words.size();
    return memory_by_innermost(rows, cpu_sites);
  }
  ListedRows listed(const Ints& names) const {
    ListRequest rows;
    rows.rows = kind.size();
    rows.kind = kind.data();
    rows.parent = parent.data();
    rows.site = site.data();
    return list_rows(rows, names);
  }
  static constexpr uint32_t kNone = 0xFFFFFFFFu;
};

Longs longs(const Column<int64_t>& column) {
  return Longs(column.begin(), column.end());
}

}  // namespace

TEST(memory_counts_for_the_ranges_around_it) {
  const MemoryUsage usage = Table().usage();
  CHECK(longs(usage.cpu) == (Longs{4, 4, 0, 0, 8}));
  CHECK(longs(usage.device) == (Longs{2, 0, 0, 0, 0}));
  CHECK(longs(usage.left_over) == (Longs{4}));
  CHECK(usage.failed.empty());
  Table table;
  table.words[1] = table.words[9] = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  table.parent[4] = 1;
  CHECK(longs(table.usage().cpu) == (Longs{-2, -2, 0, 0, 0}));  // wraps
}

TEST(memory_that_is_not_there_is_refused) {
  const auto refused = [](auto&& change) {
    Table table;
    change(table);
    CHECK_THROWS(ValueError, table.usage());
  };
  refused([](Table& t) { t.parent[2] = 2; });
  refused([](Table& t) { t.parent[1] = 4; });
  refused([](Table& t) { t.payload[2] = Table::kNone; });
  refused([](Table& t) { t.words.resize(9); });
  Table least;
  least.words.resize(10);  // address and size of the last record
  CHECK(longs(least.usage().cpu) == (Longs{4, 4, 0, 0, 8}));
  refused([](Table& t) { t.words.clear(); });
  refused([](Table& t) { t.site[2] = 3; });
}

TEST(repeated_rows_are_left_out_of_a_list) {
  const ListedRows whole = Table().listed({0, 1, 2});
  CHECK(longs(whole.rows) == (Longs{0}));
  Table table;
  table.site[1] = 1;
  const ListedRows found = table.listed({0, 1, 2});
  CHECK(longs(found.rows) == (Longs{0, 1}));
  CHECK(Ints(found.parent.begin(), found.parent.end()) == (Ints{-1, 0}));
  table.parent[1] = 2;
  CHECK_THROWS(ValueError, table.listed({0, 1, 2}));
  CHECK_THROWS(ValueError, Table().listed({0, 1}));
}

TEST(sums_by_group_are_checked) {
  const std::vector<uint32_t> codes = {0, 1, 1};
  const Ints parent = {-1, 0, 1};
  const Longs rows = {0, 2, 3}, start = {0, 0, 1, 2}, end = {9, 0, 8, 6};
  const std::vector<double> floats = {0.5, 7, std::numeric_limits<double>::quiet_NaN(),
                                      std::numeric_limits<double>::infinity()};
  GroupedEvents<uint32_t> events;
  events.size = 3;
  events.groups = 2;
  events.codes = codes.data();
  events.parent = parent.data();
  events.rows = rows.data();
  events.table_rows = 4;
  const GroupSums sums = sum_times(events, start.data(), end.data());
  CHECK(sums.total == (std::vector<uint64_t>{9, 11}));
  CHECK(sums.own == (std::vector<uint64_t>{2, 7}));
  CHECK(sums.count == (std::vector<uint64_t>{1, 2}));
  CHECK(sum_usage(events, end.data()).own == (std::vector<uint64_t>{1, 8}));
  CHECK(sum_floats(events, nullptr, floats.data()) ==
        (std::vector<double>{0.5, std::numeric_limits<double>::max()}));
  const Longs backwards = {2, 1, 0};
  CHECK(first_events(events, nullptr) == (Longs{0, 1}));
  CHECK(first_events(events, backwards.data()) == (Longs{0, 2}));
  const auto refused = [&](const GroupedEvents<uint32_t>& bad, const Longs& order) {
    CHECK_THROWS(ValueError, sum_floats(bad, order.data(), floats.data()));
  };
  refused(events, {0, 1, 3});
  const Longs far_first = {3, 0, 1};
  CHECK_THROWS(ValueError, first_events(events, far_first.data()));
  auto bad = events;
  bad.table_rows = 3;
  refused(bad, {0, 1, 2});
  CHECK_THROWS(ValueError, sum_usage(bad, end.data()));
  bad = events;
  bad.groups = 1;
  CHECK_THROWS(ValueError, sum_times(bad, start.data(), end.data()));
  bad = events;
  const Ints far = {-1, 0, 3};
  bad.parent = far.data();
  CHECK_THROWS(ValueError, sum_times(bad, start.data(), end.data()));
}
