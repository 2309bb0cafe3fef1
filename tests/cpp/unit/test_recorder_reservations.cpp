// SPDX-License-Identifier: Apache-2.0
// Room that is reserved and not written yet when a session stops: it holds what an earlier life of
// the chunk left there, and is no record.
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

constexpr fp::Site site =
    fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE, "plain",
                  __FILE__, "", __LINE__);

// Leaves a chunk whose every second unit are words that look like a late begin.
void leave_words_behind() {
  constexpr uint64_t kLate = ~uint64_t{0} >> 1;
  fp::Session session;
  session.start();
  for (int i = 0; i < 2000; ++i) {
    FASTPROF_RANGE_ARGS("words", "a", kLate, "b", kLate, "c", kLate);
  }
  session.stop();
}

}  // namespace

TEST(what_is_not_written_yet_is_no_record) {
  for (int before = 0; before < 6; ++before) {
    leave_words_behind();
    fp::Session session;
    session.start();
    for (int i = 0; i < before; ++i) fp::end_range(fp::begin_range(site));
    fp::State* s = fp::state();
    const fp::Slot* slot = fp::reserve(s, fp::thread_block(), 2, site.mask);
    CHECK(slot != nullptr);
    session.stop();
    const fp::Capture& capture = session.capture();
    fp::validate_capture(capture);
    CHECK_EQ(capture.size(), static_cast<size_t>(before));
    CHECK_EQ(dropped(capture, fp::DropCause::in_flight), 1);
  }
}
