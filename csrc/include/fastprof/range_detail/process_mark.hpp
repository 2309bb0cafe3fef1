// SPDX-License-Identifier: Apache-2.0
// A word that tells a forked child that what it holds was made by its parent, at the cost of one
// load.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/slot.hpp"

FASTPROF_NAMESPACE_BEGIN

// A page that the kernel zeroes in every child (MADV_WIPEONFORK, Linux 4.14), whatever way it was
// forked. It holds the process id once somebody asked for it; null until then, or where the kernel
// cannot do it.
inline uint64_t* g_process_page = nullptr;
inline uint32_t g_process_page_refused = 0;

// This process's mark, never 0. Makes the page at the first call, so call it once from a place that
// may do system calls. Any thread.
inline uint64_t process_mark() noexcept {
  uint64_t* page = load_acquire(&g_process_page);
  if (page == nullptr && load_relaxed(&g_process_page_refused) == 0) {
    void* fresh = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED || ::madvise(fresh, 4096, 18 /* MADV_WIPEONFORK */) != 0) {
      if (fresh != MAP_FAILED) ::munmap(fresh, 4096);
      store_relaxed(&g_process_page_refused, 1u);
    } else {
      uint64_t* expected = nullptr;
      page = static_cast<uint64_t*>(fresh);
      // Release: whoever sees the pointer sees a mapped page. Partner: the acquire load above.
      if (!__atomic_compare_exchange_n(&g_process_page, &expected, page, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE)) {
        ::munmap(fresh, 4096);
        page = expected;
      }
    }
  }
  if (page == nullptr) return static_cast<uint64_t>(::getpid());
  uint64_t mark = load_relaxed(page);
  if (FASTPROF_UNLIKELY(mark == 0)) {
    mark = static_cast<uint64_t>(::getpid());
    store_relaxed(page, mark);
  }
  return mark;
}

FASTPROF_NAMESPACE_END
