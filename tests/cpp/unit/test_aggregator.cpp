// SPDX-License-Identifier: Apache-2.0
// Aggregator: its totals are those of a session's summary, whatever the threads do between two
// reads; what it could not read is counted; its memory does not grow.
#include <map>
#include <random>
#include <thread>

#include "fastprof/recorder/hot_path/task_switch.hpp"
#include "fastprof/session/aggregator.hpp"
#include "fastprof/summary.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

struct Totals {
  uint64_t count = 0, in_bins = 0;
  int64_t total_ns = 0, self_ns = 0, min_ns = 0, max_ns = 0;
};

std::map<std::string, Totals> totals_of(const fp::TotalsColumns& from) {
  std::map<std::string, Totals> made;
  for (size_t i = 0; i < from.count.size(); ++i) {
    const auto first = [i](const fp::Column<uint64_t>& ends) { return i == 0 ? 0 : ends[i - 1]; };
    const uint64_t at = first(from.name_ends);
    Totals& totals = made[from.names.substr(at, from.name_ends[i] - at)];
    totals = {from.count[i],   from.zeros[i],  from.total_ns[i],
              from.self_ns[i], from.min_ns[i], from.max_ns[i]};
    for (uint64_t bin = first(from.bin_ends); bin < from.bin_ends[i]; ++bin)
      totals.in_bins += from.bin_counts[bin];
    CHECK_EQ(totals.in_bins, totals.count);
  }
  return made;
}

// Two clocks' conversions of `whole`, of which a and b are parts, differ by rounding and by rate:
// an early read knows few measurements of the clock, which are close together.
void check_near(int64_t a, int64_t b, uint64_t count, int64_t whole) {
  const int64_t apart = a > b ? a - b : b - a;
  CHECK(apart <= static_cast<int64_t>(2 * count) + whole / 1000);
}

void check_equal(const fp::TotalsColumns& columns, const fp::Summary& summary) {
  const std::map<std::string, Totals> found = totals_of(columns);
  CHECK_EQ(found.size(), summary.size());
  for (const fp::SummaryRow& row : summary) {
    CHECK(found.count(row.name) == 1);
    const Totals& totals = found.at(row.name);
    CHECK_EQ(totals.count, row.count);
    check_near(totals.total_ns, row.total_ns, row.count, row.total_ns);
    // The durations of all children are taken off, each of which is rounded.
    check_near(totals.self_ns, row.self_ns, row.count + summary.ranges / 10, row.total_ns);
    check_near(totals.min_ns, row.min_ns, 1, row.min_ns);
    check_near(totals.max_ns, row.max_ns, 1, row.max_ns);
  }
}

void nest(int depth) {
  FASTPROF_RANGE_ARGS("nested", "depth", depth);
  if (depth == 0) return;
  nest(depth - 1);
  FASTPROF_MARK("between");
  FASTPROF_RANGE("sibling");
}

}  // namespace

TEST(bins_are_those_of_the_logarithmic_mapping) {
  const fp::DurationBins bins;
  const double per_e = 1 / std::log(1.01 / 0.99);
  const auto check = [&](uint64_t ns) {
    CHECK_EQ(bins.of(ns), static_cast<uint32_t>(std::ceil(std::log(double(ns)) * per_e)));
  };
  for (uint64_t ns = 1; ns < 100000; ++ns) check(ns);
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000000; ++i) check(random() % 3600000000000000 >> random() % 40 | 1);
  CHECK_EQ(bins.of(UINT64_MAX), fp::DurationBins::kBins - 1);
}

// The rarest durations share a bin if there are too many different ones, and none is lost.
TEST(sketches_hold_every_duration) {
  const fp::DurationBins bins;
  std::mt19937_64 random(2);
  for (const int bits : {1, 12, 40}) {
    fp::DurationSketch<4> few, merged;
    fp::DurationSketch<fp::DurationBins::kBins / 8> all;
    std::map<uint32_t, uint64_t> wanted;
    uint64_t zeros = 0;
    for (int i = 0; i < 20000; ++i) {
      const auto ns = static_cast<int64_t>(random() % 3 * (random() % (uint64_t{1} << bits)));
      few.add(bins, ns, ns);
      all.add(bins, ns, ns);
      if (ns == 0)
        ++zeros;
      else
        ++wanted[bins.of(static_cast<uint64_t>(ns))];
    }
    std::map<uint32_t, uint64_t> found;
    all.each_bin([&](uint32_t bin, uint64_t count) { found[bin] = count; });
    CHECK(found == wanted);
    merged.merge(few);
    merged.merge(all);
    for (const auto* each : {&few, &merged}) {
      uint64_t sum = each->zeros;
      each->each_bin([&](uint32_t, uint64_t count) { sum += count; });
      CHECK_EQ(sum, each->count);
      CHECK_EQ(each->collapsed != 0, bits != 1);
    }
    CHECK_EQ(few.zeros, zeros);
    CHECK_EQ(merged.count, 40000);
    if (bits > 12) continue;  // the sum of durations has 63 bits
    for (int doubled = 0; doubled < 33; ++doubled) all.merge(fp::DurationSketch(all));
    std::map<uint32_t, uint64_t> many;
    all.each_bin([&](uint32_t bin, uint64_t count) { many[bin] = count >> 33; });
    CHECK(many == wanted);  // beyond 32 bits
  }
}

TEST(totals_are_those_of_the_summary) {
  fp::Aggregator aggregator;
  Running session;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([] {
      FASTPROF_RANGE("life of a thread");
      for (int i = 0; i < 20000; ++i) nest(i % 9);
    });
  for (int i = 0; i < 300; ++i) std::thread([] { FASTPROF_RANGE("short thread"); }).join();
  for (int i = 0; i < 200; ++i) {
    const auto handle = FASTPROF_ASYNC_BEGIN("async");
    aggregator.read();
    FASTPROF_ASYNC_END(handle);
  }
  for (std::thread& thread : threads) thread.join();
  // Threads that begin in the chunks that these have left.
  for (std::thread& thread : threads)
    thread = std::thread([] {
      for (int i = 0; i < 2000; ++i) nest(i % 9);
    });
  for (std::thread& thread : threads) thread.join();
  session.stop();
  aggregator.read();
  CHECK_EQ(session.dropped_events() + aggregator.dropped() + aggregator.open(), 0);
  check_equal(aggregator.columns(fp::TotalsWindow::all), session.summary());
}

TEST(tasks_nest_by_themselves) {
  fp::Aggregator aggregator;
  Running session;
  const fp::TaskWord first{fp::new_task_id()}, second{fp::new_task_id()};
  const auto run = [](fp::TaskWord task) { fp::record_task_switch(&fp::task_switch_site, task); };
  const auto step = [&](fp::TaskWord task) {
    run(task);
    for (int i = 0; i < 1000; ++i) {
      FASTPROF_RANGE("step");
    }
  };
  for (int round = 0; round < 20; ++round) {
    run(first);
    {
      FASTPROF_RANGE("request");
      step(second);
      run({});
      aggregator.read();
      step(first);
    }
    run({});
  }
  session.stop();
  aggregator.read();
  fp::Summary summary = session.summary();
  // As in a table of Python, a suspension is no self time of what it is in.
  const fp::Capture& capture = session.capture();
  for (const size_t row : rows_named(capture, "await"))
    for (fp::SummaryRow& around : summary.rows)
      if (around.name == parent_name(capture, row))
        around.self_ns -= capture.end_ns[row] - capture.start_ns[row];
  check_equal(aggregator.columns(fp::TotalsWindow::all), summary);
}

// Ranges that another thread ends, and that outlive the range around them, read while they are
// open.
TEST(ranges_that_do_not_nest_are_counted) {
  static constexpr fp::Site outer = site_of_range("outer"), inner = site_of_range("inner"),
                            handed = site_of_range("handed over");
  fp::Aggregator aggregator;
  Running session;
  for (int i = 0; i < 500; ++i) {
    const fp::RangeHandle around = fp::begin_range(outer), within = fp::begin_range(inner),
                          other = fp::begin_range(handed);
    if (i % 2 == 0) aggregator.read();
    if (i % 100 == 0)
      std::thread([&] { fp::end_range(other); }).join();
    else
      fp::end_range(other);
    fp::end_range(around);
    if (i % 3 == 0) aggregator.read();
    fp::end_range(within);
  }
  session.stop();
  aggregator.read();
  CHECK_EQ(aggregator.open() + aggregator.dropped(), 0);
  const auto found = totals_of(aggregator.columns(fp::TotalsWindow::all));
  for (const fp::SummaryRow& row : session.summary()) {
    CHECK_EQ(found.at(row.name).count, row.count);
    check_near(found.at(row.name).total_ns, row.total_ns, row.count, row.total_ns);
  }
  CHECK_EQ(found.size(), 3);

  // Ranges that outlive the ones around them, or are never ended, are bounded, and counted.
  std::vector<fp::RangeHandle> outlive;
  for (int i = 0; i < 100; ++i) {
    const fp::RangeHandle around = fp::begin_range(outer);
    outlive.push_back(fp::begin_range(inner));
    aggregator.read();
    fp::end_range(around);
    aggregator.read();
  }
  CHECK_EQ(aggregator.open() + aggregator.dropped(), 100);
  CHECK(aggregator.open() <= 64);
  for (const fp::RangeHandle& each : outlive) fp::end_range(each);
  aggregator.read();
  const uint64_t unfinished = aggregator.dropped();
  for (int i = 0; i < 5000; ++i) fp::begin_range(outer);
  aggregator.read();
  CHECK(aggregator.open() <= 4096);
  CHECK_EQ(aggregator.open() + aggregator.dropped(), 5000 + unfinished);
}

TEST(what_is_not_read_is_counted) {
  fp::Aggregator aggregator(fp::category::all, 4 * 65536);
  for (int i = 0; i < 100000; ++i) {
    FASTPROF_RANGE("many");
  }
  aggregator.read();
  CHECK(aggregator.dropped() > 0);
  CHECK_EQ(aggregator.ranges() + aggregator.dropped(), 100000);
}

TEST(windows_add_up_and_names_are_bounded) {
  fp::NameTotals totals;
  std::vector<std::string> names;
  for (int i = 0; i < 6000; ++i) names.push_back("name " + std::to_string(i));
  for (int minute = 0; minute < 12; ++minute) {  // three hours of four minutes
    for (int i = 0; i < 6000; ++i) {
      fp::Site site =
          fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE,
                        names[static_cast<size_t>(i)].c_str(), "", "", 0);
      totals.forget_sites();
      const int64_t ns = int64_t{1} << (minute + i) % 50;
      totals.add(totals.row_of(&site), ns, ns);
    }
    if (minute != 11) totals.begin_minute((minute + 1) % 4 == 0);
  }
  CHECK_EQ(totals.names(), fp::NameTotals::kMaxNames);
  const auto minute = totals_of(totals.columns(fp::TotalsWindow::minute));
  const auto hour = totals_of(totals.columns(fp::TotalsWindow::hour));
  const auto all = totals_of(totals.columns(fp::TotalsWindow::all));
  CHECK_EQ(all.size(), 5001);
  CHECK_EQ(minute.at("name 7").count, 1);
  CHECK_EQ(hour.at("name 7").count, 4);
  CHECK_EQ(all.at("name 7").count, 12);
  CHECK_EQ(all.at("name 7").max_ns, int64_t{1} << 18);
  CHECK_EQ(all.at("other names").count, 12000);
}

TEST(memory_does_not_grow) {
#if FASTPROF_ASAN || FASTPROF_TSAN
  SKIP("the sanitizer's own memory grows");
#endif
  fp::Aggregator aggregator;
  const auto record = [&](long ranges) {
    for (long i = 0; i < ranges; ++i) {
      if (i % 200000 == 0) aggregator.read();
      FASTPROF_RANGE("ever");
    }
  };
  record(scaled(2000000));
  const uint64_t before = resident_bytes();
  record(scaled(20000000));
  CHECK(resident_bytes() <= before + (1 << 20));
  aggregator.read();
  CHECK_EQ(aggregator.dropped(), 0);
  CHECK_EQ(aggregator.ranges(), static_cast<uint64_t>(scaled(22000000)));
}
