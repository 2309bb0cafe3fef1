// SPDX-License-Identifier: Apache-2.0
// Runs an Aggregator over as many ranges as a service records in days: growth of resident memory
// after the first tenth, ranges missed, and elapsed time a range. A minute of its windows is 10^8
// ranges here.
//
//   aggregation [--ranges N] [--names N] [--rounds N] [--json FILE] [--folder F]   (10^8, 100)
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fastprof/fastprof.hpp>
#include <fastprof/session/aggregation_thread.hpp>
#include <mutex>
#include <string>
#include <thread>

namespace {

constexpr uint64_t kBatch = 100000, kMinute = 100000000;

uint64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long total = 0, resident = 0;
  if (file == nullptr || std::fscanf(file, "%lu %lu", &total, &resident) != 2) std::abort();
  std::fclose(file);
  return uint64_t{resident} * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

void enter_batch(uint64_t names, uint64_t batch) {
  for (uint64_t i = 0; i < kBatch; i += 1000) {
    FASTPROF_RANGE_DYNAMIC("name " + std::to_string((batch + i / 1000) % names));
    for (int k = 1; k < 1000; ++k) {
      FASTPROF_RANGE("inner");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t ranges = 100000000, names = 100;
  const char* json = nullptr;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--ranges") == 0) ranges = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--names") == 0) names = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--json") == 0) json = argv[i + 1];
  }
  fastprof::Aggregator aggregator(fastprof::category::all, uint64_t{16} << 20);
  std::mutex lock;
  uint64_t first_bytes = 0, most_bytes = 0;
  const auto began = std::chrono::steady_clock::now();
  {
    const fastprof::AggregationThread thread(aggregator, lock);
    for (uint64_t done = 0; done < ranges; done += kBatch) {
      enter_batch(names, done / kBatch);
      for (;;) {  // what the thread cannot read meanwhile would be missed
        const std::lock_guard<std::mutex> hold(lock);
        if (aggregator.ranges() + aggregator.dropped() + 4 * kBatch > done) break;
        aggregator.read();
      }
      if (done % kMinute != 0) continue;
      const std::lock_guard<std::mutex> hold(lock);
      aggregator.begin_minute();
      most_bytes = std::max(most_bytes, resident_bytes());
      if (done <= ranges / 10) first_bytes = most_bytes;
    }
  }
  aggregator.read();
  const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const uint64_t counted = aggregator.ranges(), missed = aggregator.dropped();
  const double growth_kib = static_cast<double>(most_bytes - first_bytes) / 1024;
  const double ns = s * 1e9 / static_cast<double>(counted + missed);
  std::printf(
      "%llu ranges of %llu names, %llu missed: %.1f ns each; resident memory grew by %.0f KiB from "
      "%.1f MiB\n",
      static_cast<unsigned long long>(counted), static_cast<unsigned long long>(names + 1),
      static_cast<unsigned long long>(missed), ns, growth_kib,
      static_cast<double>(first_bytes) / (1 << 20));
  if (json != nullptr) {
    std::FILE* out = std::fopen(json, "a");
    if (out == nullptr) return 1;
    std::fprintf(out,
                 "{\"suite\": \"aggregation\", \"case\": \"%llu ranges\", \"ns\": %.2f, "
                 "\"missed\": %llu, \"growth_kib\": %.0f}\n",
                 static_cast<unsigned long long>(counted), ns,
                 static_cast<unsigned long long>(missed), growth_kib);
    std::fclose(out);
  }
  return counted + missed == ranges ? 0 : 1;
}
