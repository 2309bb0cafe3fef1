// SPDX-License-Identifier: Apache-2.0
// Records of signal handlers: a track of their own, the sessions of their thread, and handlers that
// interrupt the recorder.
#include "fastprof/recorder/hot_path/signal_scope.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

TEST(a_signal_scope_records_on_a_track_of_its_own) {
  Running session;
  fp::ThreadBlock* block = fp::thread_block();
  {
    FASTPROF_RANGE("interrupted");
    fp::Track* const track = block->track;
    for (int round = 0; round < 2; ++round) {
      const fp::signal_scope scope;
      fp::Track* const handler = block->track;
      CHECK(handler != track && handler->is_signal != 0 && track->is_signal == 0);
      FASTPROF_RANGE("handler");
      {
        const fp::signal_scope nested;  // a handler interrupts the handler
        CHECK(block->track != handler && block->track != track);
        FASTPROF_MARK("nested");
      }
      CHECK(block->track == handler);
      FASTPROF_MARK("after nested");
    }
    CHECK(block->track == track);
    FASTPROF_MARK("afterwards");
  }
  const fp::Capture& capture = session.stop();
  CHECK_EQ(capture.size(), 8);
  CHECK_EQ(capture.dropped_total(), 0);
  CHECK_EQ(capture.tracks.size(), 3);
  const auto track_of = [&](const char* name) {
    return capture.track[rows_named(capture, name).at(0)];
  };
  for (const char* name : {"handler", "nested", "after nested"})
    CHECK_EQ(count_named(capture, name), 2);
  CHECK_EQ(track_of("interrupted"), track_of("afterwards"));
  CHECK_EQ(track_of("handler"), track_of("after nested"));
  CHECK(track_of("handler") != track_of("interrupted") &&
        track_of("nested") != track_of("handler"));
  CHECK_EQ(parent_name(capture, rows_named(capture, "afterwards").at(0)), "interrupted");
  CHECK_EQ(parent_name(capture, rows_named(capture, "handler").at(0)), "");
}

// A signal that arrives in the recorder's slow path: the handler's records are counted.
TEST(a_signal_scope_does_nothing_inside_the_recorder) {
  Running session;
  fp::ThreadBlock* block = fp::thread_block();
  { FASTPROF_RANGE("first"); }
  {
    const fp::BusyScope busy(block);
    const fp::signal_scope scope;
    CHECK(block->track->is_signal == 0);
    FASTPROF_RANGE("in the handler");
  }
  { FASTPROF_RANGE("last"); }
  session.stop();
  CHECK_EQ(session.capture().size(), 2);
  CHECK_EQ(dropped(session.capture(), fp::DropCause::reentrant), 1);
}

// Also if it has recorded before its thread joined or left one.
TEST(a_handler_belongs_to_the_sessions_of_its_thread) {
  fp::SessionOptions options;
  options.thread_local_only = true;
  fp::Session first(options), second(options), wide;
  const auto handle = [](const char* name) {
    const fp::signal_scope scope;
    FASTPROF_RANGE_DYNAMIC(std::string(name));
  };
  first.start();
  handle("in the first");
  first.stop();
  CHECK_EQ(first.capture().size(), 1);
  wide.start();
  handle("before");
  second.start();
  handle("in the second");
  handle("again");
  second.stop();
  handle("behind");
  wide.stop();
  CHECK_EQ(second.capture().size(), 2);
  CHECK_EQ(count_named(second.capture(), "in the second"), 1);
  CHECK_EQ(count_named(second.capture(), "again"), 1);
  CHECK_EQ(second.capture().dropped_total(), 0);
  CHECK_EQ(wide.capture().size(), 4);
  CHECK_EQ(wide.capture().dropped_total(), 0);
}
