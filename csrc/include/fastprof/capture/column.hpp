// SPDX-License-Identifier: Apache-2.0
// Column: a std::vector for millions of trivially copyable values. Large columns use huge pages
// (faulting in 4 KB pages costs more than filling them), and resize() leaves new elements
// uninitialised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/memory.hpp"

FASTPROF_NAMESPACE_BEGIN

// Allocator for Column. Throws std::bad_alloc; aborts with -fno-exceptions.
template <class Type>
class ColumnAllocator {
 public:
  static_assert(std::is_trivially_copyable<Type>::value &&
                    std::is_trivially_destructible<Type>::value,
                "columns hold plain values");
  using value_type = Type;
  using is_always_equal = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;

  ColumnAllocator() noexcept = default;
  template <class Other>
  ColumnAllocator(const ColumnAllocator<Other>&) noexcept {}

  Type* allocate(size_t count) {
    size_t bytes = count * sizeof(Type);
    // Round up to whole huge pages if that wastes little: the remainder would use 4 KB pages.
    const size_t whole = (bytes + kHugePage - 1) & ~(kHugePage - 1);
    if (bytes >= kLarge && whole - bytes <= bytes / 8) bytes = whole;
    void* memory = nullptr;
    if (bytes < kLarge) {
      memory = std::malloc(bytes);
    } else if (::posix_memalign(&memory, kHugePage, bytes) != 0) {
      memory = nullptr;
    } else {
      platform::want_huge_pages(memory, bytes);
    }
    if (memory == nullptr) out_of_memory();
    return static_cast<Type*>(memory);
  }
  void deallocate(Type* memory, size_t) noexcept { std::free(memory); }

  // Default initialisation in place of value initialisation: resize() does not touch the memory.
  template <class Other>
  void construct(Other* at) noexcept {
    ::new (static_cast<void*>(at)) Other;
  }
  template <class Other, class... Args>
  void construct(Other* at, Args&&... args) {
    ::new (static_cast<void*>(at)) Other(std::forward<Args>(args)...);
  }

  template <class Other>
  bool operator==(const ColumnAllocator<Other>&) const noexcept {
    return true;
  }
  template <class Other>
  bool operator!=(const ColumnAllocator<Other>&) const noexcept {
    return false;
  }

 private:
  static constexpr size_t kHugePage = 2 * 1024 * 1024;
  static constexpr size_t kLarge = kHugePage;
  [[noreturn]] static void out_of_memory() {
#if FASTPROF_EXCEPTIONS
    throw std::bad_alloc();
#else
    std::abort();
#endif
  }
};

template <class Type>
using Column = std::vector<Type, ColumnAllocator<Type>>;

FASTPROF_NAMESPACE_END
