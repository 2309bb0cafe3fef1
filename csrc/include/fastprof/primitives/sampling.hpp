// SPDX-License-Identifier: Apache-2.0
// SamplingGenerator: reproducible random countdowns for sampled callbacks.
#pragma once

#include <cmath>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). One per
// thread; not thread-safe. The layout is ABI.
struct SamplingGenerator {
  uint64_t state;

  uint64_t next() noexcept {
    state += 0x9E3779B97F4A7C15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // Draws the number of trials up to and including the first success, >= 1. Geometric distribution
  // by inversion: 1 + floor(ln(u) / ln(1 - p)) with u uniform in (0, 1]. 0 < probability < 1.
  uint64_t trials(double probability) noexcept {
    const double u = static_cast<double>((next() >> 11) + 1) * 0x1.0p-53;
    // log1p(u - 1) equals ln(u): u - 1 is exact because u is a multiple of 2^-53. std::log would
    // require glibc 2.29; wheels must load with 2.28.
    const double count = std::floor(std::log1p(u - 1) / std::log1p(-probability));
    return count < 9.0e18 ? 1 + static_cast<uint64_t>(count) : UINT64_C(1) << 63;
  }
};

FASTPROF_NAMESPACE_END
