// SPDX-License-Identifier: Apache-2.0
// A first look: times the passes of a prime sieve and of a sort over its primes with the recorder's
// clock, nests the stretches with the tree kernel, and prints total and self times.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "fastprof/capture/nesting.hpp"
#include "fastprof/recorder/clock.hpp"

namespace {

struct Stretches {
  std::vector<const char*> name;
  std::vector<int64_t> start_ns, end_ns;

  size_t open(const char* what) {
    name.push_back(what);
    end_ns.push_back(0);
    start_ns.push_back(fastprof::clock_ns(CLOCK_MONOTONIC));
    return name.size() - 1;
  }
  void close(size_t row) { end_ns[row] = fastprof::clock_ns(CLOCK_MONOTONIC); }
};

std::vector<uint32_t> primes_below(uint32_t limit) {
  std::vector<bool> composite(limit, false);
  std::vector<uint32_t> primes;
  for (uint32_t i = 2; i < limit; ++i) {
    if (composite[i]) continue;
    primes.push_back(i);
    for (uint64_t j = uint64_t{i} * i; j < limit; j += i) composite[static_cast<size_t>(j)] = true;
  }
  return primes;
}

}  // namespace

int main() {
  Stretches rows;
  const fastprof::ClockKnot first = fastprof::take_clock_knot();
  const size_t all = rows.open("whole program");
  const size_t sieve = rows.open("sieve");
  std::vector<uint32_t> primes = primes_below(2000000);
  rows.close(sieve);
  const size_t order = rows.open("reorder");
  const size_t reverse = rows.open("reverse");
  std::reverse(primes.begin(), primes.end());
  rows.close(reverse);
  const size_t sort = rows.open("sort");
  std::sort(primes.begin(), primes.end());
  rows.close(sort);
  rows.close(order);
  rows.close(all);
  const fastprof::ClockKnot last = fastprof::take_clock_knot();

  const size_t count = rows.name.size();
  std::vector<int32_t> parent(count);
  std::vector<int64_t> self_ns(count);
  fastprof::nest_list(count, rows.start_ns.data(), rows.end_ns.data(), nullptr, nullptr,
                      parent.data());
  fastprof::self_times(count, rows.start_ns.data(), rows.end_ns.data(), parent.data(), nullptr,
                       self_ns.data());

  std::printf("%zu primes; counter at %.3f GHz\n", primes.size(),
              static_cast<double>(last.ticks - first.ticks) /
                  static_cast<double>(last.monotonic_ns - first.monotonic_ns));
  std::printf("%-24s %12s %12s\n", "name", "total us", "self us");
  for (size_t i = 0; i < count; ++i) {
    int depth = 0;
    for (int32_t up = parent[i]; up >= 0; up = parent[static_cast<size_t>(up)]) ++depth;
    std::printf("%*s%-*s %12.1f %12.1f\n", 2 * depth, "", 24 - 2 * depth, rows.name[i],
                static_cast<double>(rows.end_ns[i] - rows.start_ns[i]) / 1e3,
                static_cast<double>(self_ns[i]) / 1e3);
  }
  return 0;
}
