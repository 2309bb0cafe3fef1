// SPDX-License-Identifier: Apache-2.0
// The clock of recover(), of files made by hand: stamps that cannot be real, knots that are added,
// and where activities of devices are put.
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

TEST(the_steepest_slope_of_the_clock) {
  using fp::recovering::most_ns_per_tick;
  CHECK_EQ(most_ns_per_tick({}), 1.0);
  CHECK_EQ(most_ns_per_tick({{5, 700, 0, 0}}), 1.0);
  CHECK_EQ(most_ns_per_tick({{0, 0, 0, 0}, {100, 50, 0, 0}}), 0.5);
  CHECK_EQ(most_ns_per_tick({{10, 20, 0, 0}, {110, 320, 0, 0}, {210, 420, 0, 0}}), 3.0);
  CHECK_EQ(most_ns_per_tick({{0, 0, 0, 0}, {100, 50, 0, 0}, {200, 250, 0, 0}}), 2.0);
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

TEST(places_of_activities_get_tracks_behind_those_of_threads) {
  fp::DrainedRows rows;
  for (const uint32_t id : {3u, 9u, 5u}) {
    rows.tracks.emplace_back();
    rows.tracks.back().info.id = id;
  }
  std::vector<fp::Activities> given(2);
  for (fp::Activities& each : given) {
    each.places.resize(2);
    each.places[1].device_index = 0;
    each.sites.resize(2);
    each.sites[0].mask = fp::category::runtime;
    each.sites[1].mask = fp::category::device;
    for (const uint32_t place : {0u, 1u}) {
      fp::Activity row;
      row.begin = 100;
      row.end = place == 0 ? 400 : 900;
      row.site = row.place = place;
      each.rows.push_back(row);
    }
  }
  given[1].rows[0].end = 501;
  const auto last_with = [&](uint64_t last, uint64_t horizon) {
    const auto placed = fp::recovering::place_activities(given, rows, horizon, last);
    CHECK_EQ(placed.size(), 2);
    CHECK(placed[0].track_ids == (std::vector<uint32_t>{10, 11}));
    CHECK(placed[1].track_ids == (std::vector<uint32_t>{12, 13}));
    CHECK_EQ(placed[1].from.rows.size(), 2);
    return last;
  };
  CHECK_EQ(last_with(300, 501), 501);  // the end of the last call, not that of work
  CHECK_EQ(last_with(300, 500), 400);
  CHECK_EQ(last_with(700, 1000), 700);
  given[0].rows[0].begin = 0;
  uint64_t last = 0;
  CHECK_THROWS(fp::ValueError, fp::recovering::place_activities(given, rows, 500, last));
}
