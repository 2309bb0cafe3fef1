// SPDX-License-Identifier: Apache-2.0
// stable_order: sorts indices by a comparison of two indices. The sort is compiled once; std::sort
// would be compiled for each comparison and type, at several kB each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Non-template core: `before` gets `things` and two indices.
inline std::vector<uint32_t> stable_order(size_t count,
                                          bool (*before)(const void*, uint32_t, uint32_t),
                                          const void* things) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [before, things](uint32_t a, uint32_t b) { return before(things, a, b); });
  return order;
}

// Returns the indices [0, count) in stable order; before(a, b) compares the elements at two
// indices. Each comparison is an indirect call: use it for small or rare sorts. Any thread. May
// throw std::bad_alloc.
template <class Before>
std::vector<uint32_t> stable_order(size_t count, const Before& before) {
  return stable_order(
      count,
      [](const void* call, uint32_t a, uint32_t b) {
        return (*static_cast<const Before*>(call))(a, b);
      },
      &before);
}

// Reorders `things` so that element i is the former element order[i]. `order` contains each index
// once.
template <class Thing>
void put_in_order(std::vector<Thing>& things, const std::vector<uint32_t>& order) {
  std::vector<Thing> ordered;
  ordered.reserve(things.size());
  for (const uint32_t from : order) ordered.push_back(std::move(things[from]));
  things = std::move(ordered);
}

FASTPROF_NAMESPACE_END
