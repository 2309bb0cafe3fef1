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

TEST(cpus_are_limited_by_the_quota_and_at_least_one) {
  const double usable = fp::platform::usable_cpus();
  CHECK_EQ(fp::count_usable_cpus(1e9), static_cast<uint32_t>(usable));
  CHECK_EQ(fp::count_usable_cpus(0.5), 1u);
  CHECK_EQ(fp::count_usable_cpus(0), 1u);
  CHECK_EQ(fp::count_usable_cpus(1), 1u);
  if (usable >= 2) {
    CHECK_EQ(fp::count_usable_cpus(1.99), 1u);
    CHECK_EQ(fp::count_usable_cpus(2), 2u);
  }
}

TEST(slabs_are_wanted_while_fewer_than_two_are_ready) {
  const uint64_t many = 1000 * kSlab;
  CHECK(fp::want_prefault(state(0, 0, 0, many).get()));
  CHECK(fp::want_prefault(state(1, 0, 0, many).get()));
  CHECK(!fp::want_prefault(state(2, 0, 0, many).get()));
  CHECK(!fp::want_prefault(state(3, 0, 0, many).get()));
  const auto alone = state(0, 0, 0, many);
  alone->usable_cpus = 1;
  CHECK(!fp::want_prefault(alone.get()));
  alone->usable_cpus = 3;
  CHECK(fp::want_prefault(alone.get()));
}

TEST(free_chunks_count_like_ready_slabs) {
  const uint64_t many = 1000 * kSlab;
  CHECK(fp::want_prefault(state(0, 4 * kSlab - 1, 4 * kSlab, many).get()));
  CHECK(!fp::want_prefault(state(0, 4 * kSlab, 4 * kSlab, many).get()));
  CHECK(!fp::want_prefault(state(1, 4 * kSlab + 1, 5 * kSlab, many).get()));
}

TEST(slabs_are_wanted_within_the_bound_and_one_in_any_case) {
  CHECK(fp::want_prefault(state(0, 0, 10 * kSlab, 10 * kSlab).get()));
  CHECK(fp::want_prefault(state(0, 0, 10 * kSlab, 0).get()));
  // One is ready: with one more there are two slabs ahead of the chunks.
  CHECK(fp::want_prefault(state(1, 0, 8 * kSlab, 10 * kSlab).get()));
  CHECK(!fp::want_prefault(state(1, 0, 8 * kSlab + 1, 10 * kSlab).get()));
  CHECK(!fp::want_prefault(state(1, 0, 9 * kSlab, 10 * kSlab).get()));
}

TEST(the_number_of_slabs_to_keep_ready) {
  struct Case {
    uint64_t chunks, max_chunks, target;
  };
  // clang-format off
  const Case cases[] = {
      {0, 1000 * kSlab, 4},                // four
      {0, 16 * kSlab, 4},                  // a quarter of the bound
      {0, 16 * kSlab - 1, 3},
      {0, 12 * kSlab, 3},
      {0, 8 * kSlab - 1, 1},
      {0, 4 * kSlab, 1},
      {0, 3 * kSlab, 1},                   // at least one
      {0, kSlab, 1},
      {0, kSlab - 1, 0},                   // never beyond the bound
      {0, 0, 0},
      {996 * kSlab, 1000 * kSlab, 4},
      {996 * kSlab + 1, 1000 * kSlab, 3},
      {999 * kSlab, 1000 * kSlab, 1},
      {1000 * kSlab, 1000 * kSlab, 0},
      {1001 * kSlab, 1000 * kSlab, 0},
  };
  // clang-format on
  for (const Case& c : cases) {
    CHECK_EQ(fp::prefault_target(state(0, 0, c.chunks, c.max_chunks).get()), c.target);
  }
}

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
