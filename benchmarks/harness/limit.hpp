// SPDX-License-Identifier: Apache-2.0
// The limit row: what no recorder on this clock can beat. Two raw stamps and two 16-byte stores
// into memory that is present, streaming through `bytes` of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fastprof/recorder/clock.hpp"

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
