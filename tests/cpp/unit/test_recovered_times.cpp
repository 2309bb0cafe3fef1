// SPDX-License-Identifier: Apache-2.0
// The clock of recover(), of files made by hand: stamps that cannot be real, and knots that are
// added.
#include <cstring>
#include <string>
#include <vector>

#include "backing_image.hpp"

using namespace recorder_checks;
using backing_file_checks::Folder;
using backing_image::format_error_at;
using backing_image::Image;
using backing_image::image_of_one_record;
using backing_image::kSite;
using backing_image::SiteParts;

TEST(the_first_instant_of_a_session_is_possible) {
  const auto begins_at = [](uint64_t t0, const std::vector<fp::ClockKnot>& knots = {}) {
    Image made = image_of_one_record();
    made.sessions[0].t0 = t0;
    made.banks[0].count = knots.size();
    std::copy(knots.begin(), knots.end(), made.banks[0].knots);
    return format_error_at(made);
  };
  constexpr uint64_t most = 580000000000000000, limit = uint64_t{1} << 62;
  CHECK_EQ(begins_at(most), "");
  CHECK_EQ(begins_at(most + 128), "4096");
  CHECK_EQ(begins_at(0, {{most, 1, 0, 0}}), "");
  CHECK_EQ(begins_at(0, {{most + 128, 1, 0, 0}}), "4096");
  CHECK_EQ(begins_at(limit - 1, {{limit - 10, 1, 0, 0}}), "");
  CHECK_EQ(begins_at(limit, {{limit - 10, 1, 0, 0}}), "4096");
  // Two ns per tick: half as many ticks.
  const std::vector<fp::ClockKnot> fast{{0, 0, 0, 0}, {1000, 2000, 0, 0}};
  CHECK_EQ(begins_at(most / 2, fast), "");
  CHECK_EQ(begins_at(most / 2 + 128, fast), "4096");
}

TEST(stamps_too_far_from_the_begin_are_damage) {
  const auto read = [](uint64_t begin, uint64_t end, bool slow = false) {
    const Folder folder;
    Image made = image_of_one_record();
    if (slow) {  // 1/1000 ns per tick
      made.banks[0].count = 2;
      made.banks[0].knots[0] = {0, 0, 0, 0};
      made.banks[0].knots[1] = {1000000, 1000, 0, 0};
    }
    made.record(kSite, begin, end);
    made.write(folder.file());
    const fp::Recovered found = fp::recover(folder.file());
    return std::to_string(found.capture.size()) + " " + std::to_string(found.unread_chunks) + " " +
           std::to_string(found.open_ranges);
  };
  constexpr uint64_t horizon = 1000 + 580000000000000000, far = 1000 + (uint64_t{1} << 62);
  CHECK_EQ(read(1003, 1004), "2 0 0");
  CHECK_EQ(read(1003, 0), "2 0 1");
  CHECK_EQ(read(horizon - 1, horizon - 1), "2 0 0");
  CHECK_EQ(read(horizon, horizon), "1 1 0");
  CHECK_EQ(read(1003, horizon - 1), "2 0 0");
  CHECK_EQ(read(1003, horizon), "2 0 1");  // an end that cannot be is none
  CHECK_EQ(read(far - 1, far - 1, true), "2 0 0");
  CHECK_EQ(read(far, far, true), "1 1 0");
}

TEST(knots_are_added_where_the_clock_is_known) {
  const Folder folder;
  Image made = image_of_one_record();
  const auto knots = [&] {
    made.write(folder.file());
    return fp::recovering::knots_of(fp::BackingReader(folder.file(), UINT64_MAX));
  };
  CHECK_EQ(knots().size(), 0);
  made.banks[0].count = 1;
  made.banks[0].knots[0] = {5000, 6000, 7, 400};
  CHECK_EQ(knots().size(), 1);  // of an unknown boot
  made.header.slow_clock = 1;   // stamps of 1/256 ns
  std::vector<fp::ClockKnot> found = knots();
  CHECK_EQ(found.size(), 2);
  CHECK_EQ(found[1].ticks, 5000 + uint64_t{256000000000});
  CHECK_EQ(found[1].monotonic_ns, 6000 + 1000000000);
  CHECK_EQ(found[1].suspended_ns, 100);
  made.banks[0].count = 2;
  made.banks[0].knots[1] = {6000, 7000, 7, 400};
  CHECK_EQ(knots().size(), 2);
  made.header.slow_clock = 0;
  CHECK_EQ(knots().size(), 2);
  std::strcpy(made.header.boot_id, "another boot");
  CHECK_EQ(knots().size(), 2);
  if (!fp::tick_counter_usable()) return;
  fp::platform::read_boot_id(made.header.boot_id, sizeof made.header.boot_id);
  if (made.header.boot_id[0] == 0) return;
  // One of a while ago by this machine's clock: the present is added to it.
  fp::ClockKnot past = fp::take_clock_knot();
  past.suspended_ns = 4000;
  made.banks[0].count = 1;
  made.banks[0].knots[0] = past;
  found = knots();
  CHECK_EQ(found.size(), 2);
  CHECK(found.back().ticks > past.ticks && found.back().monotonic_ns > past.monotonic_ns);
  CHECK_EQ(found.back().suspended_ns, 1000);
  // None behind one of the future, and none that would make the clock jump.
  made.banks[0].knots[0].ticks = uint64_t{1} << 62;
  CHECK_EQ(knots().size(), 1);
  made.banks[0].knots[0] = past;
  made.banks[0].knots[0].monotonic_ns += 3600 * int64_t{1000000000};
  CHECK_EQ(knots().size(), 1);
}
