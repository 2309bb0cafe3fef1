// SPDX-License-Identifier: Apache-2.0
// The tree kernel against the rule written out in full (quadratic) and against the published
// examples of the rule.
#include <algorithm>
#include <cstdint>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "../check.hpp"
#include "fastprof/capture/nesting.hpp"

namespace {

using Rows = std::vector<std::pair<int64_t, int64_t>>;

bool counts(const std::vector<uint8_t>& is_range, size_t row) {
  return is_range.empty() || is_range[row] != 0;
}

// Parents of a list in any order: rows nest within their group; rows that are not ranges have no
// parent.
std::vector<int32_t> list_parents(const Rows& rows, const std::vector<uint64_t>& group = {},
                                  const std::vector<uint8_t>& is_range = {}) {
  const auto key = [&](size_t row) {
    return std::make_tuple(group.empty() ? 0 : group[row], rows[row].first, -rows[row].second);
  };
  std::vector<size_t> order;
  for (size_t row = 0; row < rows.size(); ++row)
    if (counts(is_range, row)) order.push_back(row);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  std::vector<int32_t> parent(rows.size(), -1);
  fastprof::NestingWalk<int64_t> walk;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t row = order[i];
    if (i > 0 && !group.empty() && group[row] != group[order[i - 1]]) walk.reset();
    parent[row] = walk.enter(static_cast<int32_t>(row), rows[row].first, rows[row].second);
  }
  return parent;
}

// Parents of one track in order of capture: other rows lie in the range that is open then.
std::vector<int32_t> ordered_parents(const Rows& rows, const std::vector<uint8_t>& is_range = {}) {
  std::vector<int32_t> parent;
  fastprof::NestingWalk<uint64_t> walk;
  for (size_t row = 0; row < rows.size(); ++row) {
    const auto begin = static_cast<uint64_t>(rows[row].first);
    const uint64_t end = rows[row].second < 0 ? fastprof::kOpenEnd<uint64_t>
                                              : static_cast<uint64_t>(rows[row].second);
    parent.push_back(counts(is_range, row) ? walk.enter(static_cast<int32_t>(row), begin, end)
                                           : walk.at(begin));
  }
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
  // A range left open inside a closed one outlives it.
  CHECK(same(ordered_parents({{0, -1}, {1, 100}, {5, -1}, {6, 7}, {150, 160}}), {-1, 0, 0, 2, 2}));
}

TEST(non_ranges) {
  const Rows rows = {{0, 10}, {1, 1}, {2, 50}, {3, 4}, {11, 11}};
  CHECK(same(ordered_parents(rows, {1, 0, 0, 1, 0}), {-1, 0, 0, 0, -1}));
  CHECK(same(list_parents(rows, {}, {1, 0, 0, 1, 0}), {-1, -1, -1, 0, -1}));
}

TEST(groups_do_not_mix_even_interleaved) {
  CHECK(same(list_parents({{0, 10}, {0, 10}, {1, 5}, {1, 5}, {2, 3}}, {7, 8, 7, 8, 8}),
             {-1, -1, 0, 1, 3}));
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
