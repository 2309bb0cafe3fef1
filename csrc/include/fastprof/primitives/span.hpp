// SPDX-License-Identifier: Apache-2.0
// Span: a borrowed run of values (C++17 has no std::span).
#pragma once

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// `size` values at `data`, owned by somebody else. Copying copies the reference, never the values.
template <class T>
class Span {
 public:
  using value_type = std::remove_cv_t<T>;

  constexpr Span() noexcept = default;
  constexpr Span(T* data, size_t size) noexcept : data_(data), size_(size) {}
  template <size_t N>
  constexpr Span(T (&array)[N]) noexcept : data_(array), size_(N) {}
  Span(const std::vector<value_type>& values) noexcept
      : data_(values.data()), size_(values.size()) {}
  // The list's values must outlive the span: for arguments of one call.
  constexpr Span(std::initializer_list<value_type> values) noexcept
      : Span(values.begin(), values.size()) {}

  constexpr T* data() const noexcept { return data_; }
  constexpr size_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T* begin() const noexcept { return data_; }
  constexpr T* end() const noexcept { return data_ + size_; }
  // index < size().
  constexpr T& operator[](size_t index) const noexcept { return data_[index]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

template <class T>
inline bool operator==(Span<T> a, Span<T> b) noexcept {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i])) return false;
  return true;
}
template <class T>
inline bool operator!=(Span<T> a, Span<T> b) noexcept {
  return !(a == b);
}

FASTPROF_NAMESPACE_END
