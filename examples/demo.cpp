// SPDX-License-Identifier: Apache-2.0
// Example: profile a C++ program from within. Sieves primes on two threads, sorts them, prints the
// summary table and writes two traces. Usage: demo [FOLDER_FOR_TRACES]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fastprof/fastprof.hpp>
#include <string>
#include <thread>
#include <vector>

static std::vector<uint32_t> primes_between(uint32_t first, uint32_t last) {
  FASTPROF_RANGE_ARGS("primes_between", "first", first, "last", last);
  std::vector<uint32_t> primes;
  for (uint32_t block = first; block < last; block += 50000) {
    FASTPROF_RANGE("block");
    const uint32_t end = std::min(block + 50000, last);
    for (uint32_t n = std::max(block, uint32_t{2}); n < end; ++n) {
      bool prime = true;
      for (uint32_t d = 2; d * d <= n && prime; ++d) prime = n % d != 0;
      if (prime) primes.push_back(n);
    }
    FASTPROF_COUNTER("primes found", static_cast<uint64_t>(primes.size()));
  }
  return primes;
}

static void reorder(std::vector<uint32_t>& primes) {
  FASTPROF_FUNCTION();
  {
    FASTPROF_RANGE("reverse");
    std::reverse(primes.begin(), primes.end());
  }
  FASTPROF_RANGE("sort");
  std::sort(primes.begin(), primes.end());
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  fastprof::Session session;
  session.start();
  {
    FASTPROF_RANGE("whole program");
    std::vector<uint32_t> upper;
    std::thread other([&upper] { upper = primes_between(500000, 1000000); });
    std::vector<uint32_t> primes = primes_between(0, 500000);
    other.join();
    primes.insert(primes.end(), upper.begin(), upper.end());
    FASTPROF_MARK("both halves are there");
    reorder(primes);
    std::printf("%zu primes below a million\n\n", primes.size());
  }
  session.stop();
  std::fputs(session.summary().to_string(20, 40).c_str(), stdout);
  session.write_chrome_trace(folder + "/demo.json");
  session.write_perfetto_trace(folder + "/demo.pftrace");
  std::printf(
      "\nTraces: %s/demo.json (chrome://tracing, speedscope.app) and %s/demo.pftrace "
      "(ui.perfetto.dev)\n",
      folder.c_str(), folder.c_str());
  return 0;
}
