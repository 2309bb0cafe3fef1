// SPDX-License-Identifier: Apache-2.0
// Recording 10^7 scopes into memory that this process has never touched. One measurement a process:
// run.py starts it again and again. growing [--one-cpu] prints: limit ns, growing ns.
#include <sched.h>

#include <cstring>

#include "../harness/bench.hpp"
#include "../harness/limit.hpp"
#include "scopes.hpp"

int main(int argc, char** argv) {
  const bool one_cpu = argc > 1 && std::strcmp(argv[1], "--one-cpu") == 0;
  if (one_cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  const size_t n = 10000000;
  bench::Limit limit;
  limit.scopes(1000000);
  double best = 1e18;
  for (int i = 0; i < 3; ++i)
    best = std::min(best, bench::timed([&] { limit.scopes(1000000); }) / 1e6);
  fastprof::SessionOptions options;
  options.max_bytes = 512u << 20;
  fastprof::Session session(options);
  session.start();
  const double ns = bench::timed([&] { hot_path::range(n); }) / static_cast<double>(n);
  const fastprof::Capture& capture = session.stop();
  if (capture.size() != n || capture.dropped_total() != 0) return 1;
  std::printf("%.4f %.4f\n", best, ns);
  return 0;
}
