// SPDX-License-Identifier: Apache-2.0
// ByteBuffer: output buffer of the trace writers. Passes its content to a function whenever it is
// full.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Writes `size` bytes; returns false on failure. `state` is the caller's.
using WriteFunction = bool (*)(void* state, const char* data, size_t size);

// Not thread-safe. After a failed write, ok() stays false and all further output is discarded.
class ByteBuffer {
 public:
  // 256 KB stay in the L2 cache between formatting and the copy by write().
  explicit ByteBuffer(WriteFunction write, void* state, size_t capacity = 256 * 1024)
      : write_(write),
        state_(state),
        capacity_(std::max<size_t>(capacity, kMinRoom)),
        data_(new char[capacity_]),
        at_(data_.get()),
        limit_(data_.get() + capacity_) {}
  ByteBuffer(const ByteBuffer&) = delete;
  ByteBuffer& operator=(const ByteBuffer&) = delete;

  // Returns space for `size` <= kMinRoom bytes. Write there, then call advance(end).
  static constexpr size_t kMinRoom = 1024;
  FASTPROF_ALWAYS_INLINE char* room(size_t size) {
    if (FASTPROF_UNLIKELY(static_cast<size_t>(limit_ - at_) < size)) flush();
    return at_;
  }
  FASTPROF_ALWAYS_INLINE void advance(char* end) noexcept { at_ = end; }

  // Appends any number of bytes.
  FASTPROF_ALWAYS_INLINE void append(const char* data, size_t size) {
    if (FASTPROF_LIKELY(static_cast<size_t>(limit_ - at_) >= size)) {
      std::memcpy(at_, data, size);
      at_ += size;
    } else {
      append_slowly(data, size);
    }
  }
  void append(std::string_view text) { append(text.data(), text.size()); }

  void flush() {
    const auto size = static_cast<size_t>(at_ - data_.get());
    at_ = data_.get();
    if (size == 0) return;
    written_ += size;
    if (ok_) ok_ = write_(state_, data_.get(), size);
  }
  bool ok() const noexcept { return ok_; }
  uint64_t bytes() const noexcept { return written_ + static_cast<uint64_t>(at_ - data_.get()); }

 private:
  FASTPROF_NOINLINE void append_slowly(const char* data, size_t size) {
    flush();
    if (size <= capacity_) {
      std::memcpy(at_, data, size);
      at_ += size;
      return;
    }
    written_ += size;
    if (ok_) ok_ = write_(state_, data, size);
  }

  WriteFunction write_;
  void* state_;
  size_t capacity_;
  std::unique_ptr<char[]> data_;
  char* at_;
  char* limit_;
  uint64_t written_ = 0;
  bool ok_ = true;
};

// Copies a literal to `out`; returns the end.
template <size_t Size>
FASTPROF_ALWAYS_INLINE char* put_literal(char* out, const char (&text)[Size]) noexcept {
  std::memcpy(out, text, Size - 1);
  return out + (Size - 1);
}

// A byte string that is copied in blocks of 16, which is cheaper than a call to memcpy for about 60
// bytes. A copy overwrites up to 15 bytes behind its end.
class ByteBlock {
 public:
  ByteBlock() = default;
  explicit ByteBlock(const std::string& text) : size_(text.size()), data_(text) {
    data_.resize((size_ + 15) / 16 * 16);
  }
  size_t size() const noexcept { return size_; }
  FASTPROF_ALWAYS_INLINE char* copy(char* out) const noexcept {
    const char* from = data_.data();
    for (size_t i = 0; i < size_; i += 16) std::memcpy(out + i, from + i, 16);
    return out + size_;
  }

 private:
  size_t size_ = 0;
  std::string data_;
};

// Returns whether a stream is still good: its operator bool, or true if it has none.
template <class Stream>
inline bool stream_is_good(Stream& stream) {
  if constexpr (std::is_constructible_v<bool, Stream&>) {
    return static_cast<bool>(stream);
  } else {
    return true;
  }
}

FASTPROF_NAMESPACE_END
