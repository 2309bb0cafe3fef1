// SPDX-License-Identifier: Apache-2.0
// A program with fastprof inside: records two translation units and a thread, prints the table, and
// checks the counts itself. Exit status 0 only if everything that was recorded is there.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fastprof/fastprof.hpp>
#include <string>
#include <thread>

#include "work.hpp"

static int failures = 0;

static void expect(const fastprof::Summary& summary, const char* name, uint64_t count) {
  uint64_t found = 0;
  for (const fastprof::SummaryRow& row : summary) {
    if (row.name != name) continue;
    found += row.count;
    if (row.total_ns < row.self_ns || row.max_ns < row.min_ns || row.p99_ns < row.p50_ns) {
      std::fprintf(stderr, "%s: times contradict each other\n", name);
      ++failures;
    }
  }
  if (found != count) {
    std::fprintf(stderr, "%s: %" PRIu64 " instead of %" PRIu64 "\n", name, found, count);
    ++failures;
  }
}

int main(int argc, char** argv) {
  fastprof::SessionOptions options;
  options.max_bytes = size_t{64} << 20;
  fastprof::Session session(options);

  sum_of_squares(1000);  // before the session: must not show

  session.start();
  uint64_t sum = 0;
  {
    FASTPROF_RANGE("main part");
    for (int i = 0; i < 3; ++i) {
      const std::string name = "round " + std::to_string(i);
      FASTPROF_RANGE_DYNAMIC(name);
      FASTPROF_RANGE_ARGS("with arguments", "i", i, "half", 0.5 * i);
      sum += sum_of_squares(1000);
    }
  }
  std::thread other([&sum] { sum += sum_of_squares(250); });
  other.join();
  session.stop();

  sum_of_squares(1000);  // after it: must not show

  const fastprof::Summary summary = session.summary();
  expect(summary, "main part", 1);
  expect(summary, "round 0", 1);
  expect(summary, "round 2", 1);
  expect(summary, "with arguments", 3);
  expect(summary, "sum_of_squares", 4);
  expect(summary, "batch", 33);
  if (sum != 3 * uint64_t{332833500} + 5177125) ++failures;
  if (session.dropped_events() != 0) {
    std::fprintf(stderr, "%" PRIu64 " events were dropped\n", session.dropped_events());
    ++failures;
  }
  std::fputs(summary.to_string(20, 40).c_str(), stdout);
  if (argc > 1) session.write_chrome_trace(argv[1]);
  if (argc > 2) session.write_perfetto_trace(argv[2]);
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
