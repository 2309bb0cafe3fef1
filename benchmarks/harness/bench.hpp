// SPDX-License-Identifier: Apache-2.0
// Suite: the benchmark loop. Runs its cases in turn, round after round, so that a slowdown of the
// machine affects all of them. Reports each case in ns and as a ratio to the limit row, the suite's
// first case.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "fastprof/recorder/state/clock.hpp"

namespace bench {

// Runs n iterations (scopes, or what the case counts) and returns the time in ns, without set-up.
using Run = std::function<double(size_t n)>;

// One benchmark case and its results.
struct Case {
  std::string name;
  Run run;
  size_t n;
  std::string note;
  std::vector<double> ns;  // per iteration, one value per round
};

inline double now_ns() {
  return static_cast<double>(fastprof::clock_ns(CLOCK_MONOTONIC));
}

// Returns the time of body() in ns.
template <class Body>
double timed(Body&& body) {
  const double begin = now_ns();
  body();
  return now_ns() - begin;
}

// A set of cases that are run in turn and reported as one table.
class Suite {
 public:
  void add(std::string name, size_t n, Run run, std::string note = {}) {
    cases_.push_back(Case{std::move(name), std::move(run), n, std::move(note), {}});
  }

  // Runs all cases. The first case is the limit row, to which ratios refer.
  void run(int rounds) {
    for (Case& c : cases_) c.run(c.n / 10 + 1);  // warm up code and memory
    for (int round = 0; round < rounds; ++round)
      for (Case& c : cases_) c.ns.push_back(c.run(c.n) / static_cast<double>(c.n));
  }

  // Prints a table and, if `json` is not null, writes each row to it as one line of JSON.
  void report(const char* title, std::FILE* json) const {
    const double limit = minimum(cases_.front().ns);
    const double limit_median = median(cases_.front().ns);
    std::printf("%s (%zu interleaved rounds)\n%-44s %10s %10s %8s %8s\n", title,
                cases_.front().ns.size(), "case", "min ns", "median ns", "min x", "median x");
    for (const Case& c : cases_) {
      std::printf("%-44s %10.2f %10.2f %8.3f %8.3f  %s\n", c.name.c_str(), minimum(c.ns),
                  median(c.ns), minimum(c.ns) / limit, median(c.ns) / limit_median, c.note.c_str());
      if (json != nullptr)
        std::fprintf(json,
                     "{\"suite\": \"%s\", \"case\": \"%s\", \"min_ns\": %.3f, \"median_ns\": %.3f, "
                     "\"min_ratio\": %.4f, "
                     "\"median_ratio\": %.4f, \"rounds\": %zu}\n",
                     title, c.name.c_str(), minimum(c.ns), median(c.ns), minimum(c.ns) / limit,
                     median(c.ns) / limit_median, c.ns.size());
    }
    std::printf("\n");
  }

  static double minimum(std::vector<double> v) { return *std::min_element(v.begin(), v.end()); }
  static double median(std::vector<double> v) {
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
  }

 private:
  std::vector<Case> cases_;
};

}  // namespace bench
