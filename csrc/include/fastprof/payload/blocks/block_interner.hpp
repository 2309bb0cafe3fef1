// SPDX-License-Identifier: Apache-2.0
// BlockInterner: finds earlier occurrences of a word sequence, by hash and full comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Stores positions in an array, which may grow and move but must not change stored sequences. One
// thread at a time. Open addressing, at most half full; 16 bytes per slot.
class BlockInterner {
 public:
  // Returns the position of the first sequence passed that equals words[at, at + count); `at`
  // itself if there is none. `words`: the same array in every call. count < 2^32 - 1.
  uint32_t first_of(const uint64_t* words, uint32_t at, uint32_t count) {
    const uint64_t hash = hash_of(words + at, count);
    for (size_t i = hash;; ++i) {
      Slot& slot = slots_[i & (slots_.size() - 1)];
      if (slot.count == kFree) {
        slot = Slot{hash, at, count};
        if (++size_ * 2 > slots_.size()) grow();
        return at;
      }
      if (slot.hash == hash && slot.count == count &&
          std::memcmp(words + slot.at, words + at, count * sizeof *words) == 0)
        return slot.at;
    }
  }

  size_t size() const noexcept { return size_; }

 private:
  static constexpr uint32_t kFree = 0xFFFFFFFFu;
  struct Slot {
    uint64_t hash = 0;
    uint32_t at = 0;
    uint32_t count = kFree;
  };

  // Sums an independent hash of each word, so that the words are mixed in parallel.
  static uint64_t hash_of(const uint64_t* words, uint32_t count) noexcept {
    uint64_t sum = count;
    uint64_t place = 0;
    for (uint32_t i = 0; i < count; ++i) {
      place += 0x9E3779B97F4A7C15u;
      const uint64_t mixed = (words[i] ^ place) * 0xD6E8FEB86659FD93u;
      sum += (mixed ^ mixed >> 32) * (place | 1);
    }
    const uint64_t hash = (sum ^ sum >> 32) * 0xE7037ED1A0B428DBu;
    return hash ^ hash >> 29;
  }

  void grow() {
    std::vector<Slot> grown(slots_.size() * 4);
    for (const Slot& slot : slots_) {
      if (slot.count == kFree) continue;
      size_t i = slot.hash;
      while (grown[i & (grown.size() - 1)].count != kFree) ++i;
      grown[i & (grown.size() - 1)] = slot;
    }
    slots_ = std::move(grown);
  }

  std::vector<Slot> slots_ = std::vector<Slot>(256);
  size_t size_ = 0;
};

FASTPROF_NAMESPACE_END
