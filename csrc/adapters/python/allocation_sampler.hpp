// SPDX-License-Identifier: Apache-2.0
// AllocationSampler: chooses allocations with a probability that grows with their size (Poisson
// sampling by bytes). scaled_size(): the number of bytes that a chosen allocation represents.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/clock.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Mean number of bytes between two samples.
constexpr double kSampleBytes = 65536;

// Chooses an allocation of `size` bytes with probability 1 - exp(-size / kSampleBytes), each
// independently of all others: the distance to the next sampled byte is exponentially distributed,
// and is drawn anew after each sample. Use from one thread; zero-initialised, it is valid.
class AllocationSampler {
 public:
  // Counts the allocation and returns true if it is not chosen: a subtraction and a branch. Returns
  // false and changes nothing if takes() must decide. `size` is below 2^62.
  FASTPROF_ALWAYS_INLINE bool passes(size_t size) noexcept {
    const int64_t left = left_ - static_cast<int64_t>(size);
    if (FASTPROF_UNLIKELY(left < 0)) return false;
    left_ = left;
    return true;
  }

  // Counts the allocation and returns whether it is chosen.
  bool takes(size_t size) noexcept {
    if (size > SIZE_MAX / 4) size = SIZE_MAX / 4;
    if (random_ == 0) {
      random_ = (raw_ticks() ^ reinterpret_cast<uintptr_t>(this)) | 1;
      left_ = distance();
    }
    if (passes(size)) return false;
    left_ = distance();
    return true;
  }

  // Makes passes() return false.
  void exhaust() noexcept { left_ = -1; }

 private:
  int64_t distance() noexcept {
    // splitmix64; the upper 53 bits are uniform in (0, 1].
    random_ += 0x9E3779B97F4A7C15u;
    uint64_t mixed = (random_ ^ (random_ >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    mixed ^= mixed >> 31;
    const double uniform = (static_cast<double>(mixed >> 11) + 1) * 0x1p-53;
    return static_cast<int64_t>(-std::log(uniform) * kSampleBytes);
  }

  int64_t left_ = 0;     // bytes before the next sampled one
  uint64_t random_ = 0;  // 0: not seeded
};

// Returns the number of bytes that a chosen allocation represents: its size over its probability.
// The expected value of the sum over chosen allocations is the sum over all allocations.
inline size_t scaled_size(size_t size) noexcept {
  if (size == 0) return 0;
  const double own = static_cast<double>(size);
  return static_cast<size_t>(own / -std::expm1(-own / kSampleBytes) + 0.5);
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
