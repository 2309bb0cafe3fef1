// SPDX-License-Identifier: Apache-2.0
// BlockCodes: assigns codes 0, 1, ... to the distinct blocks of a capture, in order of first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/payload/blocks/block_interner.hpp"

FASTPROF_NAMESPACE_BEGIN

// Works on blocks in one array of words, which must not change. One thread at a time.
class BlockCodes {
 public:
  explicit BlockCodes(const uint64_t* words) : words_(words) {}

  // Returns the code of the block words[at, at + count).
  int32_t code_of(uint32_t at, uint32_t count) {
    int32_t& code = code_at(at);  // fast path for blocks that rows share
    if (code >= 0) return code;
    const uint32_t first = known_.first_of(words_, at, count);
    if (first != at) return code = code_at(first);
    code = static_cast<int32_t>(blocks_.size());
    blocks_.emplace_back(at, count);
    return code;
  }

  // Position and length of each block, by code.
  const std::vector<std::pair<uint32_t, uint32_t>>& blocks() const noexcept { return blocks_; }

 private:
  struct Place {
    uint32_t at = 0;
    int32_t code = kFree;
  };
  static constexpr int32_t kFree = -2;

  // Returns a reference to the code stored for a position; -1 if it is new, and then to be set
  // before the next call with a new position. Open addressing, at most half full.
  int32_t& code_at(uint32_t at) {
    for (size_t i = slot_of(at);; ++i) {
      Place& place = places_[i & (places_.size() - 1)];
      if (place.code != kFree && place.at == at) return place.code;
      if (place.code != kFree) continue;
      if (++places_used_ * 2 > places_.size()) {
        grow();
        --places_used_;
        return code_at(at);
      }
      place = {at, -1};
      return place.code;
    }
  }

  static size_t slot_of(uint32_t at) noexcept {
    return static_cast<size_t>(at * uint64_t{0x9E3779B97F4A7C15u} >> 32);
  }

  void grow() {
    std::vector<Place> grown(places_.size() * 4);
    for (const Place& place : places_) {
      if (place.code == kFree) continue;
      size_t i = slot_of(place.at);
      while (grown[i & (grown.size() - 1)].code != kFree) ++i;
      grown[i & (grown.size() - 1)] = place;
    }
    places_ = std::move(grown);
  }

  const uint64_t* words_;
  BlockInterner known_;
  std::vector<std::pair<uint32_t, uint32_t>> blocks_;
  std::vector<Place> places_ = std::vector<Place>(1024);
  size_t places_used_ = 0;
};

FASTPROF_NAMESPACE_END
