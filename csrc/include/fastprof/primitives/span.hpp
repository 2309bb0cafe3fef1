// SPDX-License-Identifier: Apache-2.0
// Span: non-owning view of an array (C++17 has no std::span).
#pragma once

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Element type, without const, of a container with data(), size() and value_type, such as
// std::vector; substitution failure for other types. Avoids including <vector>.
template <class List>
using element_of = std::enable_if_t<
    std::is_same_v<
        std::remove_cv_t<std::remove_pointer_t<decltype(std::declval<const List&>().data())>>,
        typename List::value_type> &&
        std::is_convertible_v<decltype(std::declval<const List&>().size()), size_t>,
    typename List::value_type>;

// View of `size` values at `data`, owned elsewhere. Copying copies the view, not the values.
template <class Type>
class Span {
 public:
  using value_type = std::remove_cv_t<Type>;

  constexpr Span() noexcept = default;
  constexpr Span(Type* data, size_t size) noexcept : data_(data), size_(size) {}
  template <size_t Size>
  constexpr Span(Type (&array)[Size]) noexcept : data_(array), size_(Size) {}
  template <class List, std::enable_if_t<std::is_same_v<element_of<List>, value_type> &&
                                             !std::is_base_of_v<Span, List>,
                                         int> = 0>
  constexpr Span(const List& values) noexcept : data_(values.data()), size_(values.size()) {}
  // The initializer list must outlive the span: use it only for arguments of one call.
  constexpr Span(std::initializer_list<value_type> values) noexcept
      : Span(values.begin(), values.size()) {}

  constexpr Type* data() const noexcept { return data_; }
  constexpr size_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr Type* begin() const noexcept { return data_; }
  constexpr Type* end() const noexcept { return data_ + size_; }
  // Requires index < size().
  constexpr Type& operator[](size_t index) const noexcept { return data_[index]; }

 private:
  Type* data_ = nullptr;
  size_t size_ = 0;
};

template <class Type>
inline bool operator==(Span<Type> a, Span<Type> b) noexcept {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i])) return false;
  return true;
}
template <class Type>
inline bool operator!=(Span<Type> a, Span<Type> b) noexcept {
  return !(a == b);
}

FASTPROF_NAMESPACE_END
