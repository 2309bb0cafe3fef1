// SPDX-License-Identifier: Apache-2.0
// Measures a scope made of two LTTng-UST tracepoints: off, or recorded if a tracing session enables
// fastprof_peer:*. Built by run.py if lttng/tracepoint.h is installed.
#define TRACEPOINT_CREATE_PROBES
#define TRACEPOINT_DEFINE
#include "../harness/bench.hpp"
#include "../harness/limit.hpp"
#include "lttng_provider.h"

__attribute__((noinline)) static void scopes(size_t n) {
  for (size_t i = 0; i < n; ++i) {
    tracepoint(fastprof_peer, scope, 1);
    __asm__ volatile("" ::: "memory");
    tracepoint(fastprof_peer, scope, 0);
  }
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 11;
  std::FILE* json = argc > 2 ? std::fopen(argv[2], "a") : nullptr;
  bench::Limit limit;
  bench::Suite suite;
  suite.add("limit: 2 stamps, 2 16-byte stores", 300000,
            [&](size_t k) { return bench::timed([&] { limit.scopes(k); }); });
  suite.add("LTTng-UST, two tracepoints, off", 300000,
            [](size_t k) { return bench::timed([&] { scopes(k); }); });
  suite.run(rounds);
  suite.report("peer: LTTng-UST", json);
  if (json != nullptr) std::fclose(json);
  return 0;
}
