// SPDX-License-Identifier: Apache-2.0
// fork in the middle, process exit with open ranges and open sessions, memory over many sessions.
#include <atomic>
#include <chrono>
#include <thread>

#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

constexpr fp::Site loose_site = site_of_range("loose");
constexpr fp::Site async_site = site_of_async("async");

// ThreadSanitizer refuses new threads in the child of a process that had several; a session that
// grows starts one. AddressSanitizer's allocator, unlike libc's, is not made ready for a fork: what
// another thread held of it stays locked in the child, and new threads need much of it.
constexpr bool kThreadsInChildren = !FASTPROF_TSAN && !FASTPROF_ASAN;

// What a forked child checks: an empty recorder that works. The parent's session is not its.
int child_works(fp::Session& parents) {
  if (parents.running()) return 10;
  bool refused = false;
  try {
    parents.stop();
  } catch (const fp::StateError&) {
    refused = true;
  }
  if (!refused) return 11;
  { FASTPROF_RANGE("unrecorded"); }
  Running own;
  { FASTPROF_RANGE("child"); }
  const auto on_a_thread = [] { FASTPROF_RANGE("child's thread"); };
  if (kThreadsInChildren)
    std::thread(on_a_thread).join();
  else
    on_a_thread();
  constexpr size_t kCount = kThreadsInChildren ? 10000 : 2000;
  for (size_t i = 0; i < kCount; ++i) {
    FASTPROF_RANGE("child");
  }
  const fp::Capture& capture = own.stop();
  if (capture.size() != kCount + 2 || capture.dropped_total() != 0) return 12;
  if (count_named(capture, "child's thread") != 1) return 13;
  if (capture.pid != ::getpid() || capture.tracks[0].pid != ::getpid() ||
      capture.tracks[0].tid != ::getpid())
    return 14;
  return 0;
}

}  // namespace

TEST(fork_in_an_open_range) {
  for (long round = 0; round < scaled(20); ++round) {
    Running session;
    int status = -1;
    {
      FASTPROF_RANGE("around");
      const auto async = fp::begin_async(async_site);
      {
        FASTPROF_RANGE("fork");
        status = in_child([&] { return child_works(session); });
      }
      fp::end_async(async);
    }
    session.stop();
    CHECK_EQ(status, 0);
    CHECK_EQ(session.capture().size(), 3);
    for (size_t i = 0; i < session.capture().size(); ++i) CHECK(finished(session.capture(), i));
  }
}

// A session that follows the fork has in the child what the child did, and in the parent what the
// parent did.
TEST(a_session_that_follows_the_fork) {
  for (const bool local : {false, true}) {
    fp::SessionOptions options;
    options.follow_fork = true;
    options.thread_local_only = local;
    Running session(options);
    int status = -1;
    {
      FASTPROF_RANGE("around");
      { FASTPROF_RANGE("before"); }
      status = in_child([&] {
        if (!session.running()) return 30;
        for (int i = 0; i < 5000; ++i) {
          FASTPROF_RANGE("child");
        }
        session.drain();
        const int grandchild = in_child([&] {
          { FASTPROF_RANGE("grandchild"); }
          session.stop();
          return session.capture().size() == 1 && count_named(session.capture(), "grandchild") == 1
                     ? 0
                     : 35;
        });
        if (grandchild != 0) return grandchild;
        const fp::Capture& capture = session.stop();
        if (count_named(capture, "child") != 5000 || capture.size() != 5000) return 31;
        if (capture.dropped_total() != 0 || capture.tracks[0].pid != ::getpid()) return 32;
        session.start();  // and may be used again
        { FASTPROF_RANGE("again"); }
        session.stop();
        return session.capture().size() == 1 ? 0 : 33;
      });
      { FASTPROF_RANGE("after"); }
    }
    session.stop();
    CHECK_EQ(status, 0);
    CHECK_EQ(session.capture().size(), 3);
    CHECK_EQ(count_named(session.capture(), "around"), 1);
  }
  fp::Session spilling(
      with(&Options::follow_fork, true, &Options::overflow, fp::OverflowPolicy::spill_to_file));
  CHECK_THROWS(fp::ValueError, spilling.start());
}

TEST(the_child_ends_what_the_parent_began) {
  Running session;
  int status = -1;
  {
    Running in_the_childs_way;
    const auto range = fp::begin_range(loose_site);
    const auto async = fp::begin_async(async_site);
    status = in_child([&] {
      Running own;
      fp::end_range(range);
      fp::end_async(async);
      { FASTPROF_RANGE("mine"); }
      own.stop();
      return own.capture().size() == 1 ? 0 : 20;
    });
    fp::end_range(range);
    fp::end_async(async);
  }
  CHECK_EQ(status, 0);
  session.stop();
  CHECK_EQ(session.capture().size(), 2);
}

TEST(fork_while_other_threads_record) {
  if (std::getenv("FASTPROF_TEST_EMULATOR") != nullptr)
    SKIP("qemu-user (7.2) fails an assertion of its own when such a child starts a thread");
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> produced{0};
  Running session;
  // No thread starts or ends while the process forks: both keep AddressSanitizer's allocator busy.
  std::atomic<int> recording{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      uint64_t count = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        if (count == 150000) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          continue;
        }
        FASTPROF_RANGE("outer");
        FASTPROF_RANGE("inner");
        if (++count == 10000) recording.fetch_add(1);
        if (count % 64 == 0) std::this_thread::yield();
      }
      produced.fetch_add(2 * count);
    });
  while (recording.load() < 3) std::this_thread::yield();
  for (long round = 0; round < scaled(15); ++round) {
    CHECK_EQ(in_child([&] { return child_works(session); }), 0);
    if (round % 3 == 0) session.drain();
  }
  stop.store(true);
  for (auto& thread : threads) thread.join();
  session.stop();
  CHECK_EQ(session.capture().size() + session.dropped_events(), produced.load());
}

TEST(children_of_children) {
  Running session;
  { FASTPROF_RANGE("grandparent"); }
  const int status = in_child([&] {
    Running own;
    { FASTPROF_RANGE("parent"); }
    const int inner = in_child([&] { return child_works(own); });
    own.stop();
    return inner != 0 ? inner : own.capture().size() == 1 ? 0 : 30;
  });
  CHECK_EQ(status, 0);
  session.stop();
  CHECK_EQ(session.capture().size(), 1);
}

TEST(exit_with_everything_open) {
  // In each way a process ends by itself: with ranges, sessions and threads that still record.
  for (const bool threads : {false, kThreadsInChildren}) {
    const int status = in_child([threads] {
      static fp::Session of_static_storage;
      of_static_storage.start();
      static auto* never_destroyed = new fp::Session;
      never_destroyed->start();
      fp::begin_range(loose_site);
      if (threads)
        for (int t = 0; t < 3; ++t)
          std::thread([] {
            for (;;) {
              FASTPROF_RANGE("for ever");
            }
          }).detach();
      static const struct Last {
        ~Last() { FASTPROF_RANGE("static destructor"); }
      } last;
      (void)last;
      FASTPROF_RANGE("open at exit");
      ::usleep(2000);
      std::exit(0);
      return 1;
    });
    CHECK_EQ(status, 0);
  }
}

TEST(a_session_outside_of_any_thread_that_lives) {
  fp::Session session;
  std::thread([&] {
    session.start();
    FASTPROF_RANGE("x");
  }).join();
  session.stop();
  CHECK_EQ(session.capture().size(), 1);
  CHECK(finished(session.capture(), 0));
}

TEST(memory_is_flat_over_a_thousand_sessions) {
  const auto run = [](long count, uint64_t each) {
    for (long i = 0; i < count; ++i) {
      Running session;
      for (uint64_t k = 0; k < each; ++k) {
        FASTPROF_RANGE("x");
      }
      session.stop();
      if (session.capture().size() != each) CHECK(false);
    }
  };
  run(50, 3000);
  const uint64_t chunks = fp::state()->chunk_count;
  const uint64_t before = resident_bytes();
  run(scaled(1000), 3000);
  CHECK(fp::state()->chunk_count <= chunks + 1);
#if FASTPROF_ASAN || FASTPROF_TSAN
  (void)before;  // they keep freed memory
#else
  // Room for the allocator's whims; a session leaves nothing, a leak of one chunk each would be 64
  // MB.
  CHECK(resident_bytes() < before + (16u << 20));
#endif
}

TEST(memory_of_a_large_session_is_given_back) {
#if FASTPROF_ASAN || FASTPROF_TSAN
  SKIP("sanitizers keep freed memory resident");
#else
  const uint64_t before = resident_bytes();
  {
    Running session;
    for (int i = 0; i < 4'000'000; ++i) {
      FASTPROF_RANGE("x");
    }
    session.stop();
    CHECK_EQ(session.capture().size() + session.dropped_events(), 4'000'000);
  }
  // 96 MB of records: the warm pool stays, a slab or two beside it.
  CHECK(resident_bytes() < before + fp::kWarmPoolBytes + (12u << 20));
  fp::StateLock hold(fp::state());
  CHECK(fp::state()->free_count * fp::kChunkBytes <= fp::kWarmPoolBytes + 2 * fp::kSlabBytes);
#endif
}

TEST(the_bound_is_honoured) {
  for (const auto policy :
       {fp::OverflowPolicy::drop_newest, fp::OverflowPolicy::overwrite_oldest}) {
    Running session(with(&Options::max_bytes, 16 * 65536, &Options::overflow, policy));
    std::vector<std::thread> threads;
    constexpr uint64_t kEach = 60000;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([] {
        for (uint64_t i = 0; i < kEach; ++i) {
          FASTPROF_RANGE("x");
        }
      });
    for (auto& thread : threads) thread.join();
    {
      fp::StateLock hold(fp::state());
      // This thread's idle chunk may come on top.
      CHECK(fp::state()->chunk_count - fp::state()->free_count <= 17);
    }
    const fp::Capture& capture = session.stop();
    CHECK(capture.size() <= 17 * fp::kChunkCapacity);
    CHECK(capture.size() >= 10 * fp::kChunkCapacity);
    CHECK_EQ(capture.size() + capture.dropped_total(), 3 * kEach);
    const auto cause = policy == fp::OverflowPolicy::drop_newest ? fp::DropCause::bound
                                                                 : fp::DropCause::overwritten;
    CHECK_EQ(dropped(capture, cause), capture.dropped_total());
  }
}
