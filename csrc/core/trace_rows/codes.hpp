// SPDX-License-Identifier: Apache-2.0
// TextCodes and WordCodes: intern tables that number distinct keys from 0 in order of first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_rows {

// Returns a hash of bytes. seed: random, so that no input file can be crafted to collide.
inline uint64_t hash_bytes(const void* data, size_t size, uint64_t seed) noexcept {
  const char* at = static_cast<const char*>(data);
  uint64_t hash = seed ^ (size * 0x9E3779B97F4A7C15u);
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
  };
  while (size >= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    mix(word);
    at += 8;
    size -= 8;
  }
  uint64_t rest = 0;
  std::memcpy(&rest, at, size);
  mix(rest);
  mix(seed);
  return hash;
}

// Open-addressing hash index of a table that stores its keys elsewhere.
class CodeIndex {
 public:
  CodeIndex() : slots_(64, Slot{0, 0}) {}

  // Returns the code of the key with this hash; is_key(code) compares. add() returns the code of a
  // new key. Both hash halves are kept, so that keys are compared only if they are probably equal.
  template <class IsKey, class Add>
  uint32_t find_or_add(uint64_t hash, const IsKey& is_key, const Add& add) {
    const auto tag = static_cast<uint32_t>(hash >> 32);
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].next_code != 0) {
      if (slots_[at].tag == tag && is_key(slots_[at].next_code - 1))
        return slots_[at].next_code - 1;
      at = (at + 1) & (slots_.size() - 1);
    }
    const uint32_t code = add();
    hashes_.push_back(static_cast<uint32_t>(hash));
    slots_[at] = Slot{code + 1, tag};
    if (++used_ * 4 > slots_.size() * 3) grow();
    return code;
  }

  size_t bytes() const noexcept {
    return slots_.capacity() * sizeof(Slot) + hashes_.capacity() * 4;
  }

 private:
  struct Slot {
    uint32_t next_code;  // code + 1; 0: free
    uint32_t tag;        // high half of the hash
  };

  void grow() {
    std::vector<Slot> old(slots_.size() * 2, Slot{0, 0});
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.next_code == 0) continue;
      size_t at = hashes_[slot.next_code - 1] & (slots_.size() - 1);
      while (slots_[at].next_code != 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::vector<uint32_t> hashes_;  // low half of each code's hash; indexed by code
  size_t used_ = 0;
};

// Intern table of texts. Texts lie in blocks that never move.
class TextCodes {
 public:
  explicit TextCodes(uint64_t seed) : seed_(seed) {}

  uint32_t code_of(std::string_view text) {
    return index_.find_or_add(
        hash_bytes(text.data(), text.size(), seed_),
        [&](uint32_t code) { return texts_[code] == text; }, [&] { return add(text); });
  }
  std::string_view text(uint32_t code) const noexcept { return texts_[code]; }
  size_t size() const noexcept { return texts_.size(); }
  size_t bytes() const noexcept {
    return block_bytes_ + texts_.capacity() * sizeof(std::string_view) + index_.bytes();
  }

 private:
  static constexpr size_t kBlock = 1 << 16;

  uint32_t add(std::string_view text) {
    const size_t left = blocks_.empty() ? 0 : blocks_.back().capacity() - blocks_.back().size();
    if (left < text.size()) {
      const size_t size = text.size() > kBlock ? text.size() : kBlock;
      blocks_.emplace_back().reserve(size);
      block_bytes_ += size;
    }
    std::vector<char>& block = blocks_.back();
    const size_t begin = block.size();
    block.insert(block.end(), text.begin(), text.end());
    texts_.emplace_back(block.data() + begin, text.size());
    return static_cast<uint32_t>(texts_.size() - 1);
  }

  uint64_t seed_;
  size_t block_bytes_ = 0;
  std::vector<std::vector<char>> blocks_;  // reserved once each: views into them stay valid
  std::vector<std::string_view> texts_;
  CodeIndex index_;
};

// Intern table of sequences of words.
class WordCodes {
 public:
  explicit WordCodes(uint64_t seed) : seed_(seed) {}

  uint32_t code_of(const uint64_t* words, size_t count) {
    return index_.find_or_add(
        hash_bytes(words, count * 8, seed_),
        [&](uint32_t code) {
          return size_of(code) == count &&
                 std::memcmp(words_.data() + begins_[code], words, count * 8) == 0;
        },
        [&] {
          begins_.push_back(words_.size());
          words_.insert(words_.end(), words, words + count);
          return static_cast<uint32_t>(begins_.size() - 1);
        });
  }
  const uint64_t* words(uint32_t code) const noexcept { return words_.data() + begins_[code]; }
  size_t size_of(uint32_t code) const noexcept {
    const size_t end = code + 1 < begins_.size() ? begins_[code + 1] : words_.size();
    return end - begins_[code];
  }
  size_t size() const noexcept { return begins_.size(); }
  size_t bytes() const noexcept {
    return words_.capacity() * 8 + begins_.capacity() * 8 + index_.bytes();
  }

 private:
  uint64_t seed_;
  std::vector<uint64_t> words_;
  std::vector<uint64_t> begins_;
  CodeIndex index_;
};

}  // namespace trace_rows
FASTPROF_NAMESPACE_END
