// SPDX-License-Identifier: Apache-2.0
// The measuring loop: cases run in turn, round after round, so that a machine that slows down slows
// all of them; each is reported as nanoseconds and as a ratio to the limit row of the same process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "fastprof/recorder/clock.hpp"

namespace bench {

// Runs n scopes (or whatever the case counts) and returns the nanoseconds it took, without its own
// set-up.
using Run = std::function<double(size_t n)>;

struct Case {
  std::string name;
  Run run;
  size_t n;
  std::string note;
  std::vector<double> ns;  // per scope, one a round
};

inline double now_ns() {
  return static_cast<double>(fastprof::clock_ns(CLOCK_MONOTONIC));
}

template <class Body>
double timed(Body&& body) {
  const double begin = now_ns();
  body();
  return now_ns() - begin;
}

class Suite {
 public:
  void add(std::string name, size_t n, Run run, std::string note = {}) {
    cases_.push_back(Case{std::move(name), std::move(run), n, std::move(note), {}});
  }

  // The first case is the limit that ratios refer to.
  void run(int rounds) {
    for (Case& c : cases_) c.run(c.n / 10 + 1);  // code and memory warm
    for (int round = 0; round < rounds; ++round)
      for (Case& c : cases_) c.ns.push_back(c.run(c.n) / static_cast<double>(c.n));
  }

  // Prints a table, and with `json` the rows as one JSON array on that file.
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
