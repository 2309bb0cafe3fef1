// SPDX-License-Identifier: Apache-2.0
// Column: a std::vector for millions of plain values. Large ones lie on huge pages (a page fault
// for each 4 KB would cost more than filling it), and resize leaves new elements as they are, for
// the caller to write.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

template <class T>
class ColumnAllocator {
 public:
  static_assert(std::is_trivially_copyable<T>::value && std::is_trivially_destructible<T>::value,
                "columns hold plain values");
  using value_type = T;
  using is_always_equal = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;

  ColumnAllocator() noexcept = default;
  template <class U>
  ColumnAllocator(const ColumnAllocator<U>&) noexcept {}

  T* allocate(size_t count) {
    size_t bytes = count * sizeof(T);
    // The rest behind the last whole huge page would be faulted in by 4 KB: rounded up where that
    // wastes little.
    const size_t whole = (bytes + kHugePage - 1) & ~(kHugePage - 1);
    if (bytes >= kLarge && whole - bytes <= bytes / 8) bytes = whole;
    void* memory = nullptr;
    if (bytes < kLarge) {
      memory = std::malloc(bytes);
    } else if (::posix_memalign(&memory, kHugePage, bytes) != 0) {
      memory = nullptr;
    } else {
      (void)::madvise(memory, bytes, MADV_HUGEPAGE);
    }
    if (memory == nullptr) out_of_memory();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) noexcept { std::free(memory); }

  // Default initialisation instead of value initialisation: resize() does not touch the memory.
  template <class U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }

  template <class U>
  bool operator==(const ColumnAllocator<U>&) const noexcept {
    return true;
  }
  template <class U>
  bool operator!=(const ColumnAllocator<U>&) const noexcept {
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

template <class T>
using Column = std::vector<T, ColumnAllocator<T>>;

FASTPROF_NAMESPACE_END
