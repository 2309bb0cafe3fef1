// SPDX-License-Identifier: Apache-2.0
// ByteWriter and ByteReader: little-endian, length-prefixed serialisation. The reader validates
// everything and never raises: it keeps its first failure with the offset; later reads return 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Appends little-endian values to a string.
class ByteWriter {
 public:
  explicit ByteWriter(std::string* out) : out_(*out) {}

  void u8(uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void u32(uint32_t value) { little_endian(value, 4); }
  void u64(uint64_t value) { little_endian(value, 8); }
  void i32(int32_t value) { u32(static_cast<uint32_t>(value)); }
  void i64(int64_t value) { u64(static_cast<uint64_t>(value)); }
  void raw(std::string_view bytes) { out_.append(bytes); }

  // Writes a u32 length and the bytes; truncates text longer than 2^32 - 1 bytes.
  void text(std::string_view value) {
    constexpr size_t longest = std::numeric_limits<uint32_t>::max();
    if (value.size() > longest) value = value.substr(0, longest);
    u32(static_cast<uint32_t>(value.size()));
    raw(value);
  }

  size_t offset() const noexcept { return out_.size(); }

  // Overwrites a u64 or u32 placeholder written at `offset`.
  void patch_u64(size_t offset, uint64_t value) { patch(offset, value, 8); }
  void patch_u32(size_t offset, uint32_t value) { patch(offset, value, 4); }

 private:
  void little_endian(uint64_t value, size_t bytes) {
    char text[8];
    for (size_t i = 0; i < 8; ++i)
      text[i] = static_cast<char>(static_cast<uint8_t>(value >> (8 * i)));
    out_.append(text, bytes);
  }
  void patch(size_t offset, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
      out_[offset + static_cast<size_t>(i)] =
          static_cast<char>(static_cast<uint8_t>(value >> (8 * i)));
  }

  std::string& out_;
};

// Reads little-endian values from untrusted bytes. Not thread-safe.
class ByteReader {
 public:
  // Reads `bytes`, which must outlive the reader. `what`: their name in error messages ("remote
  // events").
  ByteReader(std::string_view bytes, const char* what)
      : bytes_(bytes), limit_(bytes.size()), what_(what) {}

  uint8_t u8() { return static_cast<uint8_t>(little_endian<1>()); }
  uint32_t u32() { return static_cast<uint32_t>(little_endian<4>()); }
  uint64_t u64() { return little_endian<8>(); }
  int32_t i32() { return static_cast<int32_t>(u32()); }
  int64_t i64() { return static_cast<int64_t>(u64()); }

  std::string_view raw(size_t count) {
    if (!need(count)) return {};
    const std::string_view part = bytes_.substr(offset_, count);
    offset_ += count;
    return part;
  }

  // Returns up to `count` following bytes without consuming them.
  std::string_view next(size_t count) const {
    return bytes_.substr(offset_, count < left() ? count : left());
  }

  std::string_view text() {
    const uint32_t length = u32();
    return raw(length);
  }

  // Validates a count of items of at least `item_bytes` each: fails if they cannot fit in the
  // remaining input, so that memory reserved for them is bounded by the size of the input. Returns
  // `value`, or 0 after a failure.
  uint64_t count(uint64_t value, size_t item_bytes, const char* items) {
    if (failed()) return 0;
    if (value <= left() / item_bytes) return value;
    fail(std::to_string(value) + " " + items + " do not fit in the " + std::to_string(left()) +
         " bytes left (each takes at least " + std::to_string(item_bytes) + ")");
    return 0;
  }

  // Begins a section: limits reading to the next `length` bytes. Returns the outer limit, to be
  // passed to leave(). Sections nest.
  size_t enter(uint64_t length, const char* section) {
    const size_t outer = limit_;
    if (failed()) return outer;
    if (length > left()) {
      fail(std::string(section) + " of " + std::to_string(length) + " bytes is longer than the " +
           std::to_string(left()) + " bytes left");
      return outer;
    }
    limit_ = offset_ + static_cast<size_t>(length);
    return outer;
  }

  // Ends a section. Fails if bytes of it are unread.
  void leave(size_t outer, const char* section) {
    if (!failed() && left() != 0)
      fail(std::string(section) + " has " + std::to_string(left()) + " bytes too many");
    limit_ = outer;
  }

  // Records the first failure as "<what>: at byte <offset>: <reason>"; ignores later ones.
  void fail(const std::string& reason) {
    if (failed()) return;
    error_ = std::string(what_) + ": at byte " + std::to_string(offset_) + ": " + reason;
  }

  bool failed() const noexcept { return !error_.empty(); }
  const std::string& error() const noexcept { return error_; }
  size_t offset() const noexcept { return offset_; }
  size_t left() const noexcept { return limit_ - offset_; }

 private:
  bool need(size_t count) {
    if (failed()) return false;
    if (count <= left()) return true;
    fail(std::to_string(count) + " bytes expected, " + std::to_string(left()) + " left");
    return false;
  }

  // Compiles to one load, because the loop bound is constant.
  template <size_t kBytes>
  uint64_t little_endian() {
    if (!need(kBytes)) return 0;
    const auto* at = reinterpret_cast<const unsigned char*>(bytes_.data()) + offset_;
    uint64_t value = 0;
    for (size_t i = 0; i < kBytes; ++i) value |= static_cast<uint64_t>(at[i]) << (8 * i);
    offset_ += kBytes;
    return value;
  }

  std::string_view bytes_;
  size_t offset_ = 0;
  size_t limit_;
  const char* what_;
  std::string error_;
};

FASTPROF_NAMESPACE_END
