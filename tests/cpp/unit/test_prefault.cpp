// SPDX-License-Identifier: Apache-2.0
// When the prefault thread faults in slabs, and how many: on either side of each limit.
#include <pthread.h>
#include <signal.h>

#include <memory>
#include <thread>

#include "../check.hpp"
#include "fastprof/recorder/store/prefault.hpp"

namespace fp = fastprof;

namespace {

constexpr uint64_t kSlab = fp::kChunksPerSlab;

std::unique_ptr<fp::State> state(uint64_t ready, uint64_t free_chunks, uint64_t chunks,
                                 uint64_t max_chunks) {
  auto s = std::make_unique<fp::State>();
  s->usable_cpus = 2;
  s->ready_count = ready;
  s->free_count = free_chunks;
  s->chunk_count = chunks;
  s->max_chunks = max_chunks;
  return s;
}

}  // namespace

TEST(signals_that_are_blocked_are_seen) {
  sigset_t mask;
  sigemptyset(&mask);
  CHECK(fp::blocks_nothing(mask));
  for (const int signal : {SIGHUP, SIGUSR1, SIGRTMAX}) {
    sigemptyset(&mask);
    sigaddset(&mask, signal);
    CHECK(!fp::blocks_nothing(mask));
  }
}

// A handler may be what runs while a signal is blocked: no thread is made then.
TEST(no_thread_is_started_while_a_signal_is_blocked) {
  const auto s = state(0, 0, 0, 1000 * kSlab);
  sigset_t mask, before, after;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &mask, &before);
  fp::prefault_ahead(s.get());
  pthread_sigmask(SIG_SETMASK, &before, &after);
  CHECK_EQ(s->prefault_running, 0);
  CHECK_EQ(s->prefault_signal, 1);
  CHECK_EQ(s->usable_cpus, 2);
  CHECK_EQ(sigismember(&after, SIGUSR1), 1);
  CHECK_EQ(sigismember(&after, SIGUSR2), sigismember(&before, SIGUSR2));
  s->prefault_running = 1;  // one runs: it is woken
  fp::prefault_ahead(s.get());
  CHECK_EQ(s->prefault_running, 1);
  CHECK_EQ(s->prefault_signal, 2);
}

TEST(the_prefault_thread_makes_what_is_wanted_and_ends) {
  for (const bool wanted : {true, false}) {
    const auto s = state(0, 0, 0, 12 * kSlab);
    s->session_bits = wanted ? 1 : 0;
    s->prefault_running = 1;
    std::thread([&] { fp::prefault_main(s.get()); }).join();
    CHECK_EQ(s->prefault_running, 0);
    CHECK_EQ(s->ready_count, wanted ? 3 : 0);
    CHECK(s->slabs == nullptr);
    for (const fp::Slab* slab = s->ready; slab != nullptr; slab = slab->next)
      CHECK_EQ(slab->magic, fp::kSlabMagic);
  }
}
