// SPDX-License-Identifier: Apache-2.0
// The tree kernel against the rule written out in full (quadratic) and against the published
// examples of the rule.
#include <cstdint>
#include <random>
#include <vector>

#include "../check.hpp"
#include "fastprof/capture/nesting.hpp"

namespace {

using Rows = std::vector<std::pair<int64_t, int64_t>>;

std::vector<int32_t> list_parents(const Rows& rows, const std::vector<uint64_t>& group = {},
                                  const std::vector<uint8_t>& is_range = {}) {
  std::vector<int64_t> start, end;
  for (const auto& row : rows) {
    start.push_back(row.first);
    end.push_back(row.second);
  }
  std::vector<int32_t> parent(rows.size(), 99);
  fastprof::nest_list(rows.size(), start.data(), end.data(), group.empty() ? nullptr : group.data(),
                      is_range.empty() ? nullptr : is_range.data(), parent.data());
  return parent;
}

std::vector<int32_t> ordered_parents(const Rows& rows, const std::vector<uint8_t>& is_range = {},
                                     fastprof::NonRanges non_ranges = fastprof::NonRanges::attach) {
  std::vector<uint64_t> begin, end;
  for (const auto& row : rows) {
    begin.push_back(static_cast<uint64_t>(row.first));
    end.push_back(row.second < 0 ? fastprof::kOpenEnd<uint64_t>
                                 : static_cast<uint64_t>(row.second));
  }
  std::vector<int32_t> parent(rows.size(), 99);
  fastprof::NestingWalk<uint64_t> walk;
  fastprof::nest_ordered(rows.size(), begin.data(), end.data(),
                         is_range.empty() ? nullptr : is_range.data(), parent.data(), walk, 0,
                         non_ranges);
  return parent;
}

bool same(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return a == b;
}

}  // namespace

TEST(well_nested) {
  CHECK(same(ordered_parents({{0, 100}, {1, 50}, {2, 20}, {20, 30}, {60, 90}, {200, 210}}),
             {-1, 0, 1, 1, 0, -1}));
}

// Examples of rule T1: a(0,10) b(5,15) c(6,8) d(9,10).
TEST(partial_overlap_goes_to_the_later) {
  CHECK(same(list_parents({{0, 10}, {5, 15}, {6, 8}, {9, 10}}), {-1, -1, 1, 1}));
  CHECK(same(ordered_parents({{0, 10}, {5, 15}, {6, 8}, {9, 10}}), {-1, -1, 1, 1}));
}

TEST(identical_ranges_nest_in_list_order) {
  CHECK(same(list_parents({{0, 10}, {0, 10}, {0, 10}}), {-1, 0, 1}));
  CHECK(same(list_parents({{5, 6}, {0, 10}, {0, 10}}), {2, -1, 1}));
}

TEST(empty_ranges) {
  CHECK(same(list_parents({{0, 10}, {10, 10}}), {-1, -1}));  // at the parent's end: not a child
  CHECK(same(list_parents({{5, 5}, {5, 5}}), {-1, -1}));     // siblings
  CHECK(same(list_parents({{0, 10}, {0, 0}, {9, 9}}), {-1, 0, 0}));
  // On ticks the begin is stamped before the parent's end, so it stays inside whatever rounding
  // does later.
  CHECK(same(ordered_parents({{100, 1000}, {999, 1000}}), {-1, 0}));
}

TEST(open_ranges_are_parents) {
  CHECK(same(ordered_parents({{0, -1}, {1, -1}, {2, 3}, {4, 5}}), {-1, 0, 1, 1}));
  // Left open inside a closed one: it outlives it.
  CHECK(same(ordered_parents({{0, -1}, {1, 100}, {5, -1}, {6, 7}, {150, 160}}), {-1, 0, 0, 2, 2}));
}

TEST(non_ranges) {
  const Rows rows = {{0, 10}, {1, 1}, {2, 50}, {3, 4}, {11, 11}};
  CHECK(same(ordered_parents(rows, {1, 0, 0, 1, 0}), {-1, 0, 0, 0, -1}));
  CHECK(same(ordered_parents(rows, {1, 0, 0, 1, 0}, fastprof::NonRanges::orphan),
             {-1, -1, -1, 0, -1}));
  CHECK(same(list_parents(rows, {}, {1, 0, 0, 1, 0}), {-1, -1, -1, 0, -1}));
}

TEST(groups_do_not_mix_even_interleaved) {
  CHECK(same(list_parents({{0, 10}, {0, 10}, {1, 5}, {1, 5}, {2, 3}}, {7, 8, 7, 8, 8}),
             {-1, -1, 0, 1, 3}));
}

TEST(first_row_is_added) {
  const std::vector<uint64_t> begin = {0, 1}, end = {10, 2};
  std::vector<int32_t> parent(2);
  fastprof::NestingWalk<uint64_t> walk;
  fastprof::nest_ordered<uint64_t>(2, begin.data(), end.data(), nullptr, parent.data(), walk, 40);
  CHECK(same(parent, {-1, 40}));
}

TEST(self_times_subtract_direct_ranges_and_may_be_negative) {
  const std::vector<int64_t> start = {0, 1, 2, 20, 30}, end = {100, 11, 5, 25, 400};
  const std::vector<int32_t> parent = {-1, 0, 1, 0, 0};
  std::vector<uint8_t> is_range = {1, 1, 1, 0, 1};
  std::vector<int64_t> self(5);
  fastprof::self_times(5, start.data(), end.data(), parent.data(), is_range.data(), self.data());
  CHECK_EQ(self[0], 100 - 10 - 370);
  CHECK_EQ(self[1], 7);
  CHECK_EQ(self[2], 3);
  CHECK_EQ(self[3], 0);
  CHECK_EQ(self[4], 370);
}

TEST(random_lists_follow_the_rule_as_written) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const int64_t span = 4 + static_cast<int64_t>(random() % 40);
    Rows rows(1 + random() % 40);
    std::vector<uint64_t> group(rows.size());
    std::vector<uint8_t> is_range(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].first = static_cast<int64_t>(random() % static_cast<uint64_t>(span));
      rows[i].second = rows[i].first + static_cast<int64_t>(random() % static_cast<uint64_t>(span));
      group[i] = random() % 3;
      is_range[i] = random() % 5 != 0;
    }
    const std::vector<int32_t> parent = list_parents(rows, group, is_range);
    const auto earlier = [&](size_t a, size_t b) {  // a comes before b
      if (rows[a].first != rows[b].first) return rows[a].first < rows[b].first;
      if (rows[a].second != rows[b].second) return rows[a].second > rows[b].second;
      return a < b;
    };
    for (size_t i = 0; i < rows.size(); ++i) {
      int32_t expected = -1;
      for (size_t j = 0; j < rows.size(); ++j) {
        if (i == j || !is_range[i] || !is_range[j] || group[i] != group[j] || !earlier(j, i))
          continue;
        const bool contains = rows[j].first <= rows[i].first && rows[i].first < rows[j].second &&
                              rows[i].second <= rows[j].second;
        if (!contains) continue;
        if (expected < 0 || earlier(static_cast<size_t>(expected), j))
          expected = static_cast<int32_t>(j);
      }
      CHECK_EQ(parent[i], expected);
    }
  }
}
