// SPDX-License-Identifier: Apache-2.0
// Measures an NVTX range without a tool attached. Built by run.py if nvtx3/nvToolsExt.h is
// installed.
#include <nvtx3/nvToolsExt.h>

#include "../harness/bench.hpp"
#include "../harness/limit.hpp"

__attribute__((noinline)) static void scopes(size_t n) {
  for (size_t i = 0; i < n; ++i) {
    nvtxRangePushA("scope");
    __asm__ volatile("" ::: "memory");
    nvtxRangePop();
  }
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 11;
  std::FILE* json = argc > 2 ? std::fopen(argv[2], "a") : nullptr;
  bench::Limit limit;
  bench::Suite suite;
  suite.add("limit: 2 stamps, 2 16-byte stores", 300000,
            [&](size_t k) { return bench::timed([&] { limit.scopes(k); }); });
  suite.add("NVTX range, no tool", 300000,
            [](size_t k) { return bench::timed([&] { scopes(k); }); });
  suite.run(rounds);
  suite.report("peer: NVTX", json);
  if (json != nullptr) std::fclose(json);
  return 0;
}
