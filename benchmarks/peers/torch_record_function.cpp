// SPDX-License-Identifier: Apache-2.0
// Measures at::RecordFunction of the installed torch against the limit row. Built by run.py if
// torch is installed.
#include <ATen/record_function.h>

#include <memory>

#include "../harness/bench.hpp"
#include "../harness/limit.hpp"

namespace {

std::unique_ptr<at::ObserverContext> empty_start(const at::RecordFunction&) {
  return nullptr;
}
void empty_end(const at::RecordFunction&, at::ObserverContext*) {}

__attribute__((noinline)) void scopes(size_t n) {
  for (size_t i = 0; i < n; ++i) {
    RECORD_FUNCTION("op", {});
    __asm__ volatile("" ::: "memory");
  }
}

double with_callbacks(size_t n, int count) {
  std::vector<at::CallbackHandle> handles;
  for (int i = 0; i < count; ++i)
    handles.push_back(
        at::addThreadLocalCallback(at::RecordFunctionCallback(&empty_start, &empty_end)));
  scopes(100);
  const double ns = bench::timed([&] { scopes(n); });
  for (const auto handle : handles) at::removeCallback(handle);
  return ns;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 11;
  std::FILE* json = argc > 2 ? std::fopen(argv[2], "a") : nullptr;
  bench::Limit limit;
  bench::Suite suite;
  const size_t n = 300000;
  suite.add("limit: 2 stamps, 2 16-byte stores", n,
            [&](size_t k) { return bench::timed([&] { limit.scopes(k); }); });
  suite.add("at::RecordFunction, no callback", n,
            [](size_t k) { return bench::timed([&] { scopes(k); }); });
  suite.add("at::RecordFunction, one empty callback", n,
            [](size_t k) { return with_callbacks(k, 1); });
  suite.add("at::RecordFunction, four empty callbacks", n,
            [](size_t k) { return with_callbacks(k, 4); });
  suite.run(rounds);
  suite.report("peer: torch", json);
  if (json != nullptr) std::fclose(json);
  return 0;
}
