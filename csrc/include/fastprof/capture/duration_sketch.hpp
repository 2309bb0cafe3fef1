// SPDX-License-Identifier: Apache-2.0
// DurationSketch: count, sum, extremes and a histogram of durations, from which quantiles follow
// within 1 % of their value, in bounded memory.
//
// The bins are those of DDSketch's logarithmic mapping (Masson, Rim and Lee, "DDSketch", VLDB 2019,
// section 2.2), as the Python package ddsketch numbers them: a duration of x > 0 ns is in the bin
// ceil(log(x) / log(gamma)), gamma = (1 + a) / (1 - a), a = 0.01.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Numbers of bins. Immutable once constructed.
class DurationBins {
 public:
  static constexpr double kAccuracy = 0.01;
  static constexpr uint32_t kBins = 1792;  // the last one ends at 43 days

  DurationBins() : last_(kBins) {
    const double gamma = (1 + kAccuracy) / (1 - kAccuracy);
    const double per_e = 1 / std::log(gamma);
    const auto bin = [per_e](uint64_t ns) {
      return std::ceil(std::log(static_cast<double>(ns)) * per_e);
    };
    for (uint32_t i = 0; i < kBins; ++i) {
      auto ns = static_cast<uint64_t>(std::pow(gamma, i));
      while (bin(ns + 1) <= i) ++ns;
      while (ns > 1 && bin(ns) > i) --ns;
      last_[i] = ns;
    }
    uint32_t at = 0;
    first_.resize(64 * kCells);
    for (uint32_t cell = 0; cell < 64 * kCells; ++cell) {
      const uint64_t least = cell_begin(cell);
      while (at + 1 < kBins && last_[at] < least) ++at;
      first_[cell] = static_cast<uint16_t>(at);
    }
  }

  // The bin of a duration of 1 ns or more; the last one for all that are longer.
  FASTPROF_ALWAYS_INLINE uint32_t of(uint64_t ns) const noexcept {
    const auto zeros = static_cast<uint32_t>(__builtin_clzll(ns));
    const uint32_t cell =
        (63 - zeros) * kCells + static_cast<uint32_t>(ns << zeros << 1 >> (64 - kCellBits));
    const uint32_t bin = first_[cell];
    // A cell is narrower than a bin.
    const uint32_t next = bin + (ns > last_[bin] ? 1u : 0u);
    return next < kBins ? next : kBins - 1;
  }

 private:
  static constexpr uint32_t kCellBits = 6;  // an octave has so many cells: 1.6 % to 0.8 % wide
  static constexpr uint32_t kCells = 1u << kCellBits;

  static uint64_t cell_begin(uint32_t cell) noexcept {
    const uint64_t mantissa = kCells + cell % kCells;
    const uint32_t exponent = cell / kCells;
    return exponent >= kCellBits
               ? mantissa << (exponent - kCellBits)
               : (mantissa + (uint64_t{1} << (kCellBits - exponent)) - 1) >> (kCellBits - exponent);
  }

  std::vector<uint64_t> last_;   // the greatest duration of a bin
  std::vector<uint16_t> first_;  // the bin of the least duration of a cell
};

// Durations of one name. Not thread-safe. At most kMostBlocks * 32 bytes of bins, in blocks of 8
// that are made when they are needed; beyond that, the rarest durations share a bin (`collapsed`).
template <uint32_t kMostBlocks>
class DurationSketch {
 public:
  uint64_t count = 0;
  uint64_t zeros = 0;      // durations of 0 ns, which are in no bin
  uint64_t collapsed = 0;  // durations in a bin that is not theirs
  int64_t total_ns = 0, self_ns = 0;
  int64_t min_ns = INT64_MAX, max_ns = INT64_MIN;

  FASTPROF_ALWAYS_INLINE void add(const DurationBins& bins, int64_t ns, int64_t self) {
    ++count;
    total_ns += ns;
    self_ns += self;
    min_ns = std::min(min_ns, ns);
    max_ns = std::max(max_ns, ns);
    if (FASTPROF_UNLIKELY(ns <= 0)) {
      ++zeros;
      return;
    }
    const uint32_t bin = bins.of(static_cast<uint64_t>(ns));
    const uint32_t slot = slot_of_[bin / kBlock];
    if (FASTPROF_LIKELY(slot != 0)) {
      uint32_t& held = counts_[(slot - 1) * kBlock + bin % kBlock];
      if (FASTPROF_UNLIKELY(++held == 0)) carry(bin, 1);
      return;
    }
    add_to_bin(bin, 1);
  }

  template <uint32_t kOther>
  void merge(const DurationSketch<kOther>& other) {
    count += other.count;
    zeros += other.zeros;
    collapsed += other.collapsed;
    total_ns += other.total_ns;
    self_ns += other.self_ns;
    min_ns = std::min(min_ns, other.min_ns);
    max_ns = std::max(max_ns, other.max_ns);
    other.each_bin([this](uint32_t bin, uint64_t number) { add_to_bin(bin, number); });
  }

  void clear() { *this = DurationSketch(); }

  // Calls visit(bin, count) for each bin that is not empty, in ascending order.
  template <class Visit>
  void each_bin(Visit&& visit) const {
    for (uint32_t block = 0; block < kBlocks; ++block) {
      if (slot_of_[block] == 0) continue;
      for (uint32_t i = 0; i < kBlock; ++i) {
        const uint32_t bin = block * kBlock + i;
        uint64_t number = counts_[(slot_of_[block] - 1u) * kBlock + i];
        for (const Carry& each : carries_)
          if (each.bin == bin) number += uint64_t{each.times} << 32;
        if (number != 0) visit(bin, number);
      }
    }
  }

 private:
  static constexpr uint32_t kBlock = 8;
  static constexpr uint32_t kBlocks = DurationBins::kBins / kBlock;
  struct Carry {
    uint32_t bin, times;
  };

  void carry(uint32_t bin, uint32_t times) {
    for (Carry& each : carries_)
      if (each.bin == bin) {
        each.times += times;
        return;
      }
    carries_.push_back({bin, times});
  }

  void add_to_bin(uint32_t bin, uint64_t number) {
    if (slot_of_[bin / kBlock] == 0) make_block(bin / kBlock);
    count_in(bin, number);
  }

  void count_in(uint32_t bin, uint64_t number) {
    uint32_t& held = counts_[(slot_of_[bin / kBlock] - 1u) * kBlock + bin % kBlock];
    const uint64_t sum = held + number;
    held = static_cast<uint32_t>(sum);
    if (sum >> 32 != 0) carry(bin, static_cast<uint32_t>(sum >> 32));
  }

  // Makes the block of a bin, if need be in place of the block with the fewest durations, which
  // move to the nearest bin that stays.
  void make_block(uint32_t block) {
    if (used_ < kMostBlocks) {
      counts_.resize((used_ + 1) * kBlock);
      slot_of_[block] = static_cast<uint8_t>(++used_);
      return;
    }
    uint32_t least = 0;
    uint64_t fewest = UINT64_MAX;
    for (uint32_t each = 0; each < kBlocks; ++each) {
      const uint64_t held = slot_of_[each] != 0 ? held_by(each) : UINT64_MAX;
      if (held >= fewest) continue;
      least = each;
      fewest = held;
    }
    const uint8_t slot = std::exchange(slot_of_[least], uint8_t{0});
    std::fill_n(&counts_[(slot - 1u) * kBlock], kBlock, 0u);
    for (Carry& each : carries_)
      if (each.bin / kBlock == least) each.times = 0;
    slot_of_[block] = slot;
    collapsed += fewest;
    for (uint32_t apart = 1;; ++apart) {
      if (least >= apart && slot_of_[least - apart] != 0)
        return count_in((least - apart) * kBlock + kBlock - 1, fewest);
      if (least + apart < kBlocks && slot_of_[least + apart] != 0)
        return count_in((least + apart) * kBlock, fewest);
    }
  }

  uint64_t held_by(uint32_t block) const noexcept {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < kBlock; ++i) sum += counts_[(slot_of_[block] - 1u) * kBlock + i];
    for (const Carry& each : carries_)
      if (each.bin / kBlock == block) sum += uint64_t{each.times} << 32;
    return sum;
  }

  std::vector<uint32_t> counts_;
  std::vector<Carry> carries_;  // of bins that hold 2^32 or more
  uint32_t used_ = 0;
  uint8_t slot_of_[kBlocks] = {};  // of a block's counts, + 1; 0: none
};

FASTPROF_NAMESPACE_END
