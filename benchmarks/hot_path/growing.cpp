// SPDX-License-Identifier: Apache-2.0
// Measures recording into memory that the process has never touched, in its first session. One
// measurement per process; run.py starts it repeatedly.
//
//   growing [--one-cpu] [--warm-up] [scopes]
//
// Prints three times in ns: the limit row per scope, a recorded scope, and the kernel's page-fault
// cost of the 24 bytes of a scope (2 MB at a time, measured on other memory). On one CPU, the first
// plus the third is a lower bound for any recorder with 24-byte records.
#include <sched.h>

#include <cstdlib>
#include <cstring>

#include "../harness/bench.hpp"
#include "../harness/limit.hpp"
#include "scopes.hpp"

namespace {

double fault_ns(size_t bytes) {
  const size_t slabs = bytes / fastprof::kSlabBytes;
  char* region = fastprof::map_region(slabs);
  if (region == nullptr) return 0;
  const double ns = bench::timed([&] {
    for (size_t i = 0; i < slabs; ++i)
      fastprof::populate_slab(reinterpret_cast<fastprof::Slab*>(region + i * fastprof::kSlabBytes));
  });
  ::munmap(region, slabs * fastprof::kSlabBytes);
  return ns / static_cast<double>(slabs * fastprof::kSlabBytes) * sizeof(fastprof::Slot);
}

}  // namespace

int main(int argc, char** argv) {
  bool one_cpu = false;
  bool warm_up = false;
  size_t n = 10000000;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--one-cpu") == 0)
      one_cpu = true;
    else if (std::strcmp(argv[i], "--warm-up") == 0)
      warm_up = true;
    else
      n = std::strtoul(argv[i], nullptr, 10);
  }
  if (one_cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  bench::Limit limit;
  limit.scopes(1000000);
  double best = 1e18;
  for (int i = 0; i < 3; ++i)
    best = std::min(best, bench::timed([&] { limit.scopes(1000000); }) / 1e6);
  fastprof::SessionOptions options;
  options.max_bytes = 512u << 20;
  fastprof::Session session(options);
  if (warm_up) session.warm_up(n * sizeof(fastprof::Slot));
  session.start();
  const double ns = bench::timed([&] { hot_path::range(n); }) / static_cast<double>(n);
  const fastprof::Capture& capture = session.stop();
  if (capture.size() != n || capture.dropped_total() != 0) return 1;
  std::printf("%.4f %.4f %.4f\n", best, ns, fault_ns(256u << 20));
  return 0;
}
