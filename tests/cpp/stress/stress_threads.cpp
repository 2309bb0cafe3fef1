// SPDX-License-Identifier: Apache-2.0
// Threads born and dying, recording to their very last moment; sessions starting and stopping
// meanwhile.
#include <pthread.h>

#include <atomic>
#include <thread>

#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

constexpr fp::Site loose_site = site_of_range("loose");

struct AtExit {
  int records = 0;
  ~AtExit() {
    for (int i = 0; i < records; ++i) {
      FASTPROF_RANGE("thread_local destructor");
    }
  }
};
thread_local AtExit at_exit;

// A key made before the recorder's first use in main(), and one made after: destructors run on
// either side of ours.
pthread_key_t early_key, late_key;
void in_key_destructor(void*) {
  for (int i = 0; i < 3; ++i) {
    FASTPROF_RANGE("key destructor");
  }
}
// Asks to be called again, as often as the C library allows.
pthread_key_t stubborn_key;
void stubborn(void* rounds) {
  { FASTPROF_RANGE("stubborn destructor"); }
  const auto left = reinterpret_cast<uintptr_t>(rounds);
  if (left > 1) pthread_setspecific(stubborn_key, reinterpret_cast<void*>(left - 1));
}

uint64_t total(const fp::Capture& capture) {
  return capture.size() + capture.dropped_total();
}

}  // namespace

TEST(thousands_of_short_threads) {
  const long count = scaled(2000);
  Running session;
  std::vector<std::thread> batch;
  for (long i = 0; i < count; ++i) {
    batch.emplace_back([] {
      FASTPROF_RANGE("outer");
      FASTPROF_RANGE("inner");
      FASTPROF_MARK("mark");
    });
    if (batch.size() == 20) {
      for (auto& thread : batch) thread.join();
      batch.clear();
    }
  }
  for (auto& thread : batch) thread.join();
  const fp::Capture& capture = session.stop();
  CHECK_EQ(total(capture), static_cast<uint64_t>(count) * 3);
  CHECK_EQ(capture.size(), static_cast<size_t>(count) * 3);
  CHECK_EQ(capture.tracks.size(), count);
}

TEST(threads_of_many_sessions_leave_nothing_behind) {
  const long rounds = scaled(300);
  uint64_t chunks = 0;
  for (long round = 0; round < rounds; ++round) {
    Running session;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([] {
        for (int i = 0; i < 100; ++i) {
          FASTPROF_RANGE("x");
        }
      });
    for (auto& thread : threads) thread.join();
    session.stop();
    CHECK_EQ(total(session.capture()), 400);
    fp::StateLock hold(fp::state());
    if (round == 10) chunks = fp::state()->chunk_count;
    if (round > 10) CHECK(fp::state()->chunk_count <= chunks + 4);
    int tracks = 0;
    for (fp::Track* track = fp::state()->tracks; track != nullptr; track = track->next) ++tracks;
    CHECK(tracks <= 3);  // this thread, and the runtime's
  }
}

TEST(records_in_destructors_at_the_end_of_a_thread) {
  CHECK_EQ(pthread_key_create(&late_key, &in_key_destructor), 0);
  CHECK_EQ(pthread_key_create(&stubborn_key, &stubborn), 0);
  // Three of the four rounds that the C library grants, so that the last is ours. ThreadSanitizer
  // takes its own state down in the fourth, and code that it instruments must be over by then.
  constexpr uintptr_t kRounds = FASTPROF_TSAN ? 2 : 3;
  Running session;
  const long count = scaled(200);
  for (long i = 0; i < count; ++i) {
    std::thread([&] {
      at_exit.records = 2;
      pthread_setspecific(early_key, &at_exit);
      pthread_setspecific(late_key, &at_exit);
      pthread_setspecific(stubborn_key, reinterpret_cast<void*>(kRounds));
      FASTPROF_RANGE("body");
    }).join();
  }
  const fp::Capture& capture = session.stop();
  CHECK_EQ(count_named(capture, "body"), count);
  CHECK_EQ(count_named(capture, "thread_local destructor"), 2 * count);
  CHECK_EQ(total(capture), static_cast<uint64_t>(count) * (1 + 2 + 3 + 3 + kRounds));
  Running next;
  next.stop();
  fp::StateLock hold(fp::state());
  int tracks = 0;
  for (fp::Track* track = fp::state()->tracks; track != nullptr; track = track->next) ++tracks;
  CHECK(tracks <= 3);
}

TEST(threads_that_end_with_open_ranges) {
  const long count = scaled(300);
  Running session;
  for (long i = 0; i < count; ++i) {
    std::thread([] {
      { FASTPROF_RANGE("closed"); }
      fp::begin_range(loose_site);
    }).join();
  }
  const fp::Capture& capture = session.stop();
  CHECK_EQ(capture.size(), 2 * count);
  for (const size_t row : rows_named(capture, "loose"))
    if (finished(capture, row)) CHECK(false);
  // Dead threads hold no chunk.
  Running next;
  next.stop();
  CHECK_EQ(next.capture().size(), 0);
}

TEST(ranges_that_outlive_sessions_and_their_chunks) {
  // Each thread holds a range open over many sessions while its chunks are handed around.
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      while (!stop.load()) {
        FASTPROF_RANGE("long");
        for (int i = 0; i < 3000; ++i) {
          FASTPROF_RANGE("short");
        }
        std::this_thread::yield();
      }
    });
  const long rounds = scaled(80);
  for (long round = 0; round < rounds; ++round) {
    fp::SessionOptions options;
    options.max_bytes = static_cast<uint64_t>(2 + round % 20) * 65536;
    if (round % 2 == 1) options.overflow = fp::OverflowPolicy::overwrite_oldest;
    Running session(options);
    ::usleep(500);
    session.stop();
    size_t strange = 0;
    for (size_t i = 0; i < session.capture().size(); ++i) {
      const std::string& name = name_of(session.capture(), i);
      if (name != "long" && name != "short") ++strange;
    }
    CHECK_EQ(strange, 0);
  }
  stop.store(true);
  for (auto& thread : threads) thread.join();
}

TEST(sessions_in_a_loop_while_eight_threads_record) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      uint64_t n = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        try {
          FASTPROF_RANGE("outer");
          FASTPROF_RANGE_ARGS("inner", "n", n);
          FASTPROF_COUNTER("n", n);
          if (++n % 16 == 0) throw n;
        } catch (uint64_t) {
          std::this_thread::yield();
        }
      }
    });
  const long rounds = scaled(400);
  for (long round = 0; round < rounds; ++round) {
    fp::SessionOptions options;
    options.max_bytes = static_cast<uint64_t>(1 + round % 40) * 65536;
    if (round % 3 == 0) options.overflow = fp::OverflowPolicy::overwrite_oldest;
    fp::Session session(options), other;
    session.start();
    if (round % 2 == 0) other.start();
    if (round % 5 == 0) session.drain();
    session.stop();
    if (round % 8 == 0) fp::validate_capture(session.capture());
  }
  stop.store(true);
  for (auto& thread : threads) thread.join();
  CHECK_EQ(fp::state()->session_bits, 0);
}

TEST(controllers_on_several_threads) {
  std::vector<std::thread> threads;
  std::atomic<uint64_t> wrong{0};
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (long round = 0; round < scaled(60); ++round) {
        fp::SessionOptions options;
        options.thread_local_only = (t + round) % 2 == 0;
        Running session(options);
        for (int i = 0; i < 50; ++i) {
          FASTPROF_RANGE_DYNAMIC("of " + std::to_string(t));
        }
        session.stop();
        const size_t own = count_named(session.capture(), "of " + std::to_string(t));
        if (own != 50) wrong.fetch_add(1);
        if (options.thread_local_only && session.capture().size() != 50) wrong.fetch_add(1);
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

namespace {
const int key_made = pthread_key_create(&early_key, &in_key_destructor);
}
