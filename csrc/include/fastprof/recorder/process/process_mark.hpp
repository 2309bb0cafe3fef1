// SPDX-License-Identifier: Apache-2.0
// Process mark: a word that differs between a process and its forked child. A child compares it to
// detect objects that it inherited, at the cost of one load.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/memory.hpp"
#include "fastprof/recorder/state/slot.hpp"

FASTPROF_NAMESPACE_BEGIN

// A page that the kernel zeroes in every child, however it was forked. Contains the process id.
// Null before the first process_mark(), or if the kernel does not support it.
inline uint64_t* g_process_page = nullptr;
inline uint32_t g_process_page_refused = 0;

// This process's mark, never 0 (getpid() without the page). The first call maps the page, so make
// it where system calls are allowed. Any thread.
inline uint64_t process_mark() noexcept {
  uint64_t* page = load_acquire(&g_process_page);
  if (page == nullptr && load_relaxed(&g_process_page_refused) == 0) {
    void* fresh = platform::map_memory(4096);
    if (fresh == nullptr || !platform::wipe_in_children(fresh, 4096)) {
      if (fresh != nullptr) ::munmap(fresh, 4096);
      store_relaxed(&g_process_page_refused, 1u);
    } else {
      uint64_t* expected = nullptr;
      page = static_cast<uint64_t*>(fresh);
      // Acq_rel: a thread that sees the pointer sees a mapped page. Partner: the acquire load
      // above.
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
