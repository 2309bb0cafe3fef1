// SPDX-License-Identifier: Apache-2.0
// Tracks of threads that record while they exit, behind the recorder's own destructor.
#include <pthread.h>

#include <thread>

#include "fastprof/session/session_control.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

void record(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    FASTPROF_RANGE("step");
  }
}

// Runs behind the recorder's own destructor, which has a key that was made earlier.
void record_at_exit(void* thread_id) {
  record(1);
  *static_cast<uint32_t*>(thread_id) = fp::platform::thread_id();
}

}  // namespace

TEST(a_track_that_was_made_as_its_thread_ended_is_freed) {
  fp::State* s = fp::state();
  record(1);
  pthread_key_t key;
  CHECK_EQ(pthread_key_create(&key, record_at_exit), 0);
  static uint32_t tid = 0;
  const auto tracks_of_thread = [s] {
    fp::StateLock hold(s);
    size_t count = 0;
    for (const fp::Track* track = s->tracks; track != nullptr; track = track->next)
      count += track->tid == tid ? 1 : 0;
    return count;
  };
  {
    Running session;
    std::thread([key] {
      record(1);
      pthread_setspecific(key, &tid);
    }).join();
    CHECK(tid != 0);
    CHECK(tracks_of_thread() > 0);
    CHECK_EQ(count_named(session.stop(), "step"), 2);
  }
  // The kernel may know the thread a moment longer than its join.
  for (int i = 0; i < 3000 && tracks_of_thread() != 0; ++i) {
    {
      fp::StateLock hold(s);
      fp::sweep(s);
    }
    std::this_thread::yield();
  }
  CHECK_EQ(tracks_of_thread(), 0);
  pthread_key_delete(key);
}
