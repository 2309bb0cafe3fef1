// SPDX-License-Identifier: Apache-2.0
// Which track belongs to a thread that another thread reports events of.
#include <string>

#include "fastprof/recorder/store/track_of_thread.hpp"
#include "private_state.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;
using namespace private_state;

TEST(a_thread_is_found_by_its_number) {
  const auto s = make_state();
  const uint32_t own = fp::track_of_thread(s.get(), 4711, "given");
  CHECK_EQ(own, 1);
  fp::Track* track = s->tracks;
  CHECK_EQ(track->tid, 4711);
  CHECK_EQ(std::string(track->name), "given");
  CHECK(track->block == nullptr);
  CHECK_EQ(fp::track_of_thread(s.get(), 4711, "other"), 1);
  CHECK_EQ(std::string(track->name), "given");
  CHECK_EQ(fp::track_of_thread(s.get(), 4712, "other"), 2);

  // The track that the thread records into counts, wherever it is in the list.
  const auto add = [&](uint32_t tid, fp::ThreadBlock* block) {
    fp::Track* added = fp::new_track(s.get());
    added->tid = tid;
    added->block = block;
    return added;
  };
  fp::ThreadBlock block{};
  CHECK_EQ(add(4711, &block)->id, 3);
  CHECK_EQ(fp::track_of_thread(s.get(), 4711, ""), 3);
  add(4711, nullptr);
  CHECK_EQ(fp::track_of_thread(s.get(), 4711, ""), 3);
  // Without one, the newest.
  s->tracks->next->block = nullptr;
  CHECK_EQ(fp::track_of_thread(s.get(), 4711, ""), 4);
  // Not those of signal handlers, of threads that have ended, or of the parent process.
  s->tracks->is_signal = 1;
  CHECK_EQ(fp::track_of_thread(s.get(), 4711, ""), 3);
  s->tracks->next->alive = 0;
  CHECK_EQ(fp::track_of_thread(s.get(), 4711, ""), 1);
  track->pid = 1;
  CHECK_EQ(fp::track_of_thread(s.get(), 4711, "new"), 5);
}
