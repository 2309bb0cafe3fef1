// SPDX-License-Identifier: Apache-2.0
// ArgsStore: compact storage of the args of many rows. The args of a row are a sequence of (name,
// value), where a value is an integer or the code of a text; a member takes about two bytes.
//
// Encoding: LEB128 number of the layout (the names, and which values are integers), then for each
// member its integer, zigzag-encoded, or its text code, as LEB128. Encoded args follow one another
// in blocks. The position of every 16th is stored; others are found by skipping at most 15.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "core/trace_rows/codes.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_rows {

struct ArgsWord {
  uint32_t key;
  bool is_int;
  int64_t value;  // the integer, or the code of a text
};

class ArgsStore {
 public:
  explicit ArgsStore(uint64_t seed) : seed_(seed), layouts_(seed), recent_(kRecent, kNone) {}

  // Returns the code of args: that of equal args if these were added recently, else a new one.
  uint32_t add(const ArgsWord* words, size_t count) {
    keys_.clear();
    bytes_.clear();
    for (size_t i = 0; i < count; ++i)
      keys_.push_back((static_cast<uint64_t>(words[i].key) << 1) | (words[i].is_int ? 1 : 0));
    put(layouts_.code_of(keys_.data(), count));
    for (size_t i = 0; i < count; ++i) {
      const auto value = static_cast<uint64_t>(words[i].value);
      put(words[i].is_int ? (value << 1) ^ (words[i].value < 0 ? ~uint64_t{0} : 0) : value);
    }
    uint32_t& known =
        recent_[hash_bytes(bytes_.data(), bytes_.size(), seed_) & (recent_.size() - 1)];
    if (known != kNone) {
      size_t block = 0;
      const uint8_t* const at = find(known, block);
      if (static_cast<size_t>(blocks_[block].end() - at) >= bytes_.size() &&
          std::memcmp(at, bytes_.data(), bytes_.size()) == 0)
        return known;
    }
    append();
    return known = static_cast<uint32_t>(size_++);
  }

  // Calls member(word) for each member of the args with this code.
  template <class Call>
  void for_each(uint32_t code, const Call& member) const {
    size_t block = 0;
    const uint8_t* at = find(code, block);
    const auto layout = static_cast<uint32_t>(take(at));
    const uint64_t* const keys = layouts_.words(layout);
    for (size_t i = 0; i < layouts_.size_of(layout); ++i) {
      const bool is_int = (keys[i] & 1) != 0;
      const uint64_t value = take(at);
      const uint64_t decoded = is_int ? (value >> 1) ^ (~(value & 1) + 1) : value;
      member(ArgsWord{static_cast<uint32_t>(keys[i] >> 1), is_int, static_cast<int64_t>(decoded)});
    }
  }

  size_t size() const noexcept { return size_; }
  size_t bytes() const noexcept {
    return block_bytes_ + marks_.capacity() * sizeof(Mark) + layouts_.bytes() +
           recent_.capacity() * 4;
  }

 private:
  static constexpr size_t kBlock = 1 << 20;
  static constexpr size_t kRecent = 1 << 12;
  static constexpr size_t kStride = 16;  // args per mark
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Bytes {
    std::unique_ptr<uint8_t[]> data;
    size_t size, capacity;
    const uint8_t* end() const noexcept { return data.get() + size; }
  };
  struct Mark {
    uint32_t block, offset;
  };

  void put(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<uint8_t>(value | 0x80));
    bytes_.push_back(static_cast<uint8_t>(value));
  }
  static uint64_t take(const uint8_t*& at) noexcept {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t byte = *at++;
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  }

  void append() {
    if (blocks_.empty() || blocks_.back().capacity - blocks_.back().size < bytes_.size()) {
      const size_t capacity = bytes_.size() > kBlock ? bytes_.size() : kBlock;
      blocks_.push_back(Bytes{std::unique_ptr<uint8_t[]>(new uint8_t[capacity]), 0, capacity});
      block_bytes_ += capacity;
    }
    Bytes& block = blocks_.back();
    if (size_ % kStride == 0)
      marks_.push_back(
          Mark{static_cast<uint32_t>(blocks_.size() - 1), static_cast<uint32_t>(block.size)});
    std::memcpy(block.data.get() + block.size, bytes_.data(), bytes_.size());
    block.size += bytes_.size();
  }

  const uint8_t* find(uint32_t code, size_t& block) const {
    const Mark mark = marks_[code / kStride];
    block = mark.block;
    const uint8_t* at = blocks_[block].data.get() + mark.offset;
    for (size_t i = code % kStride; i > 0; --i) {
      const auto layout = static_cast<uint32_t>(take(at));
      for (size_t member = layouts_.size_of(layout); member > 0; --member) take(at);
      if (at == blocks_[block].end()) at = blocks_[++block].data.get();
    }
    return at;
  }

  uint64_t seed_;
  WordCodes layouts_;
  std::vector<uint32_t> recent_;  // code of the args last added, by low bits of their hash
  std::vector<Bytes> blocks_;
  std::vector<Mark> marks_;
  size_t size_ = 0;
  size_t block_bytes_ = 0;
  std::vector<uint64_t> keys_;  // of the args being added, as is bytes_
  std::vector<uint8_t> bytes_;
};

}  // namespace trace_rows
FASTPROF_NAMESPACE_END
