// SPDX-License-Identifier: Apache-2.0
// Attribution of memory to ranges, trees of lists, sums by group, recursion: small hand-written
// cases, and invalid columns. tests/python/unit/test_table_kernels.py compares them with NumPy.
#include <limits>
#include <vector>

#include "../check.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/group_sums.hpp"
#include "fastprof/capture/listed_rows.hpp"
#include "fastprof/capture/memory_usage.hpp"
#include "fastprof/capture/nested_codes.hpp"

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

  std::vector<uint8_t> nests, hidden;  // empty: not given

  MemoryUsage usage() const {
    MemoryRows rows;
    rows.rows = kind.size();
    rows.kind = kind.data();
    rows.parent = parent.data();
    if (!nests.empty()) rows.nests = nests.data();
    rows.payload = payload.data();
    rows.site = site.data();
    rows.words = words.data();
    rows.words_count = words.size();
    return memory_by_innermost(rows, cpu_sites);
  }
  ListedRows listed(const Ints& names) const {
    ListRequest rows;
    rows.rows = parent.size();
    rows.kind = kind.empty() ? nullptr : kind.data();
    rows.parent = parent.data();
    if (!nests.empty()) rows.nests = nests.data();
    if (!hidden.empty()) rows.hidden = hidden.data();
    rows.site = site.data();
    return list_rows(rows, names);
  }
  static constexpr uint32_t kNone = 0xFFFFFFFFu;
};

Longs longs(const Column<int64_t>& column) {
  return Longs(column.begin(), column.end());
}
Ints ints(const Column<int32_t>& column) {
  return Ints(column.begin(), column.end());
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

TEST(memory_goes_past_rows_that_do_not_nest) {
  Table table;  // outer(async(mark, middle(memory))), with a failed allocation at the end
  table.kind = {kRange,  SiteKind::async_range,  SiteKind::mark, kRange,
                kMemory, SiteKind::out_of_memory};
  table.parent = {-1, 0, 1, 1, 3, 3};
  table.payload = {Table::kNone, Table::kNone, Table::kNone, Table::kNone, 0, Table::kNone};
  table.site = {0, 0, 0, 0, 1, 1};
  table.words = {1, 4};
  const MemoryUsage all = table.usage();
  CHECK(longs(all.cpu) == (Longs{4, 4, 0, 4, 0, 0}));
  CHECK(all.device.empty() && all.left_over.empty());
  CHECK(longs(all.failed) == (Longs{5}));
  table.nests = {1, 0, 1, 1, 1, 1};  // the async range takes no part
  CHECK(longs(table.usage().cpu) == (Longs{4, 0, 0, 4, 0, 0}));
  table.nests = {1, 1, 1, 0, 1, 1};  // its memory is its own, and nobody's else
  CHECK(longs(table.usage().cpu) == (Longs{0, 0, 0, 4, 0, 0}));
  table.nests = {0, 1, 1, 1, 1, 1};
  CHECK(longs(table.usage().cpu) == (Longs{0, 4, 0, 4, 0, 0}));
  table.nests = {};
  table.parent[3] = 2;  // a mark is no range, but may lie between
  CHECK(longs(table.usage().cpu) == (Longs{4, 4, 0, 4, 0, 0}));
  table.parent[4] = 2;  // a record in something that is no range is left over
  CHECK(longs(table.usage().left_over) == (Longs{4}));
  CHECK(longs(table.usage().cpu) == (Longs{0, 0, 0, 0, 4, 0}));
  table.words[1] = 0;  // nothing: no column
  CHECK(table.usage().cpu.empty());
  CHECK(longs(table.usage().left_over) == (Longs{4}));
  table.parent[4] = 0;
  CHECK(table.usage().cpu.empty() && table.usage().left_over.empty());
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

TEST(what_is_hidden_or_no_range_is_not_listed) {
  Table table;
  table.kind = {kRange, kRange, kMemory, SiteKind::async_range, SiteKind::mark};
  table.site = {0, 1, 0, 2, 0};
  table.parent = {-1, 0, 1, 1, -1};
  const Ints names = {0, 1, 2};
  CHECK(longs(table.listed(names).rows) == (Longs{0, 1, 3}));
  CHECK(ints(table.listed(names).parent) == (Ints{-1, 0, 1}));
  table.hidden = {0, 1, 0, 0, 0};  // its child gets the next one that is listed
  CHECK(longs(table.listed(names).rows) == (Longs{0, 3}));
  CHECK(ints(table.listed(names).parent) == (Ints{-1, 0}));
  table.hidden = {1, 0, 0, 0, 0};
  CHECK(ints(table.listed(names).parent) == (Ints{-1, 0}));
  table.hidden = {};
  table.nests = {1, 0, 1, 1, 1};  // listed, but neither child nor parent
  CHECK(longs(table.listed(names).rows) == (Longs{0, 1, 3}));
  CHECK(ints(table.listed(names).parent) == (Ints{-1, -1, 0}));
  table.kind = {};  // all are ranges
  table.nests = {};
  const ListedRows all = table.listed(names);
  CHECK(all.all && all.rows.empty());
  CHECK(ints(all.parent) == (Ints{-1, 0, 1, 1, -1}));
  CHECK(!Table().listed(names).all);
}

TEST(only_an_only_child_repeats_its_parent) {
  Table table;
  table.kind = {};
  table.parent = {-1, 0, 1, 2, 2};
  table.site = {0, 0, 0, 0, 0};
  // 1 and 2 are left out; 3 and 4 are siblings, and stay.
  const ListedRows found = table.listed({0});
  CHECK(longs(found.rows) == (Longs{0, 3, 4}));
  CHECK(ints(found.parent) == (Ints{-1, 0, 0}));
  CHECK(!found.all);
  CHECK(table.listed({-1}).all);     // no repetitions by this code
  table.parent = {-1, 0, 0, 0, -1};  // three children are no only child either
  CHECK(table.listed({0}).all);
  CHECK(ints(table.listed({0}).parent) == (Ints{-1, 0, 0, 0, -1}));
  // A child that does not nest is none: the other is the only one.
  table.parent = {-1, 0, 0, -1, -1};
  table.nests = {1, 0, 1, 1, 1};
  CHECK(longs(table.listed({0}).rows) == (Longs{0, 1, 3, 4}));
  CHECK(ints(table.listed({0}).parent) == (Ints{-1, -1, -1, -1}));
}

// An event of another device counts, without a duration; an async one has no time of its own.
TEST(sums_leave_out_what_is_not_an_events_own) {
  const std::vector<uint32_t> codes = {0, 1, 2, 2};
  const Ints parent = {-1, 0, 0, 1};
  const Longs start = {0, 1, 10, 2}, end = {100, 5, 50, 4}, values = {50, 20, 7, 0};
  const std::vector<uint8_t> on_cpu = {1, 1, 0, 1}, is_async = {0, 1, 0, 0};
  GroupedEvents<uint32_t> events;
  events.size = 4;
  events.groups = 4;
  events.codes = codes.data();
  events.parent = parent.data();
  events.table_rows = 4;
  using Sums = std::vector<uint64_t>;
  const GroupSums all = sum_times(events, start.data(), end.data());
  CHECK(all.total == (Sums{100, 4, 42, 0}));
  CHECK(all.own == (Sums{56, 2, 42, 0}));
  const GroupSums all_usage = sum_usage(events, values.data());
  CHECK(all_usage.total == (Sums{50, 20, 7, 0}));
  CHECK(all_usage.own == (Sums{23, 20, 7, 0}));
  CHECK(all_usage.count == (Sums{1, 1, 1, 0}));
  events.on_cpu = on_cpu.data();
  events.is_async = is_async.data();
  const GroupSums sums = sum_times(events, start.data(), end.data());
  CHECK(sums.count == (Sums{1, 1, 2, 0}));
  CHECK(sums.total == (Sums{100, 4, 2, 0}));
  CHECK(sums.own == (Sums{96, static_cast<uint64_t>(-2), 2, 0}));
  const GroupSums usage = sum_usage(events, values.data());
  CHECK(usage.total == (Sums{50, 20, 7, 0}));
  CHECK(usage.own == (Sums{23, 0, 0, 0}));
  CHECK(first_events(events, nullptr) == (Longs{0, 1, 2, -1}));
  const std::vector<double> floats = {0, 1.5, -std::numeric_limits<double>::infinity(), 2};
  CHECK(sum_floats(events, nullptr, floats.data()) ==
        (std::vector<double>{0, 1.5, -std::numeric_limits<double>::max(), 0}));
}

TEST(rows_inside_a_row_of_the_same_code_are_nested) {
  const auto nested = [](const Ints& parent, const Ints& code, size_t codes) {
    return nested_codes(parent.data(), code.data(), parent.size(), codes);
  };
  using Flags = std::vector<uint8_t>;
  CHECK(nested({}, {}, 0).empty());
  // f(g(f(f), g), h), then another tree: f(g), and g
  CHECK(nested({-1, 0, 1, 2, 1, 0, -1, 6, -1}, {0, 1, 0, 0, 1, 2, 0, 1, 1}, 3) ==
        (Flags{0, 0, 1, 1, 1, 0, 0, 0, 0}));
  // Siblings are not inside each other.
  CHECK(nested({-1, 0, 0, 0}, {0, 1, 1, 1}, 2) == (Flags{0, 0, 0, 0}));
  CHECK(nested({-1, -1}, {0, 0}, 1) == (Flags{0, 0}));
}
