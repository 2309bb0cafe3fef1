// SPDX-License-Identifier: Apache-2.0
// The limit row: the lower bound for any recorder that reads this clock. Reads the clock twice and
// makes two 16-byte stores per scope, streaming through `bytes` of resident memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fastprof/recorder/state/clock.hpp"

namespace bench {

class Limit {
 public:
  explicit Limit(size_t bytes = 32u << 20)
      : count_(bytes / sizeof(Half)), memory_(new Half[count_]) {}

  __attribute__((noinline)) void scopes(size_t n) {
    Half* at = memory_.get();
    Half* const end = at + count_;
    for (size_t i = 0; i < n; ++i) {
      at->stamp = fastprof::raw_ticks();
      at->word = i;
      __asm__ volatile("" ::: "memory");
      at[1].stamp = fastprof::raw_ticks();
      at[1].word = i;
      __asm__ volatile("" ::: "memory");
      at += 2;
      if (at == end) at = memory_.get();
    }
  }

 private:
  struct Half {
    uint64_t stamp = 0, word = 0;
  };
  size_t count_;
  std::unique_ptr<Half[]> memory_;
};

}  // namespace bench
