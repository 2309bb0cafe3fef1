// SPDX-License-Identifier: Apache-2.0
// Summaries: numbers computed by hand, and random captures compared with sorted lists.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <sstream>

#include "../check.hpp"
#include "capture_builder.hpp"
#include "fastprof/capture/summary.hpp"

using namespace fastprof;
using fastprof_test::CaptureBuilder;

TEST(waits_come_last_by_self_time) {
  CaptureBuilder b;
  const uint32_t work = b.site("work"), idle = b.site("idle", EventKind::range, "wait");
  b.track(1, "main");
  b.row(work, 0, 10);
  b.row(idle, 10, 100);
  Summary s = summarise(b.finish());
  CHECK_EQ(s[0].name, "work");
  CHECK_EQ(s[1].self_ns, int64_t{90});
  s.sort(SummaryOrder::total);
  CHECK_EQ(s[0].name, "idle");
}

TEST(hand_worked) {
  CaptureBuilder b;
  const uint32_t step = b.site("step"), load = b.site("load"),
                 copy = b.site("copy", EventKind::async_range);
  const uint32_t mark = b.site("mark", EventKind::mark);
  b.track(1, "main");
  b.row(step, 0, 100);
  b.row(load, 10, 40);
  b.row(load, 12, 20);   // recursion: both count in total, self is right
  b.row(copy, 13, 500);  // async: total, no self, takes nothing from its parent
  b.instant(mark, 14);
  b.row(step, 100, 150);
  b.track(2, "worker");
  b.row(load, 0, -1);
  const Summary s = summarise(b.finish());
  CHECK_EQ(s.size(), size_t{3});
  const int64_t window = 1'000'000'000;
  CHECK_EQ(s[0].name, "load");
  CHECK_EQ(s.find("load")->total_ns, 30 + 8 + window);
  CHECK_EQ(s.find("load")->self_ns, 22 + 8 + window);
  CHECK_EQ(s.find("load")->unfinished, uint64_t{1});
  CHECK_EQ(s.find("load")->p50_ns, 30);
  CHECK_EQ(s.find("load")->p99_ns, window);
  CHECK_EQ(s.find("step")->count, uint64_t{2});
  CHECK_EQ(s.find("step")->self_ns, 100 - 30 + 50);
  CHECK_EQ(s.find("step")->mean_ns, 75.0);
  CHECK_EQ(s.find("step")->p50_ns, 50);
  CHECK_EQ(s.find("step")->min_ns, 50);
  CHECK_EQ(s.find("step")->max_ns, 100);
  CHECK_EQ(s.find("copy")->total_ns, 487);
  CHECK_EQ(s.find("copy")->self_ns, 0);
  CHECK(s.find("mark") == nullptr);
  CHECK_EQ(s.other_events, uint64_t{1});
  CHECK_EQ(s.threads, uint64_t{2});
  CHECK_EQ(s.unfinished, uint64_t{1});
  CHECK_EQ(s.self_total_ns, 30 + window + 120);
}

TEST(enclosing_ranges_are_left_out) {
  CaptureBuilder b;
  const uint32_t outer = b.site("outer"), inner = b.site("inner");
  b.track(1, "");
  b.row(outer, -50, 10, {}, event_flag::enclosing);
  b.row(inner, 5, 9);
  const Summary s = summarise(b.finish());
  CHECK_EQ(s.size(), size_t{1});
  CHECK_EQ(s[0].self_ns, 4);
}

// Rows that say when tasks ran are no work, and their tracks are no threads.
TEST(tasks_count_for_their_thread) {
  CaptureBuilder b;
  const uint32_t work = b.site("work"), life = b.site("t", EventKind::range, "task_lifetime"),
                 await = b.site("t", EventKind::range, "task_await"),
                 mark = b.site("m", EventKind::mark);
  b.track(1, "main");
  b.row(work, 0, 10);
  b.capture.tracks[b.track(1, "task")].thread_id = 1;
  b.row(life, 20, 100);
  b.row(work, 30, 80);
  b.row(await, 40, 60);
  b.instant(mark, 45);
  b.track(2, "other");
  b.row(work, 0, 5);
  const Summary s = summarise(b.finish());
  CHECK_EQ(s.size(), size_t{1});
  CHECK_EQ(s[0].count, uint64_t{3});
  CHECK_EQ(s[0].self_ns, 10 + 50 + 5);  // with the time in which it awaits
  CHECK_EQ(s.threads, uint64_t{2});
  CHECK_EQ(s.other_events, uint64_t{1});
  CHECK_EQ(s.self_total_ns, 65);
  CHECK_EQ(s.window_ns, 1'000'000'000);
}

// Rows that are equal in a column keep their order.
TEST(every_column_orders_the_rows) {
  const auto row = [](const char* name, int64_t(&values)[8]) {
    SummaryRow made;
    made.name = name;
    made.self_ns = values[0];
    made.total_ns = values[1];
    made.count = static_cast<uint64_t>(values[2]);
    made.mean_ns = static_cast<double>(values[3]);
    made.min_ns = values[4];
    made.p50_ns = values[5];
    made.p99_ns = values[6];
    made.max_ns = values[7];
    return made;
  };
  constexpr SummaryOrder orders[] = {SummaryOrder::self, SummaryOrder::total, SummaryOrder::count,
                                     SummaryOrder::mean, SummaryOrder::min,   SummaryOrder::p50,
                                     SummaryOrder::p99,  SummaryOrder::max};
  for (size_t column = 0; column < 8; ++column) {
    // In all other columns, the other rows are larger.
    int64_t small[8] = {9, 9, 9, 9, 9, 9, 9, 9}, large[8] = {1, 1, 1, 1, 1, 1, 1, 1},
            equal[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    small[column] = 2;
    large[column] = equal[column] = 3;
    Summary summary;
    summary.rows = {row("d", small), row("c", large), row("b", equal), row("a", small)};
    summary.sort(orders[column]);
    const auto names = [&] {
      std::string text;
      for (const SummaryRow& each : summary) text += each.name;
      return text;
    };
    CHECK_EQ(names(), "cbda");
    summary.sort(SummaryOrder::name);
    CHECK_EQ(names(), "abcd");
    summary.sort(static_cast<SummaryOrder>(99));  // of no order: stays
    CHECK_EQ(names(), "abcd");
  }
}

TEST(a_whole_table) {
  CaptureBuilder b(0, 2000);
  const uint32_t outer = b.site("outer"), inner = b.site("inner", EventKind::range, "cpu_op");
  b.track(1, "main");
  b.row(outer, 0, 900);
  b.row(inner, 100, 400);
  b.row(inner, 500, 800);
  b.track(2, "worker");
  b.row(outer, 0, -1);
  const Summary s = summarise(b.finish());
  const std::string rule = std::string(103, '-') + '\n';
  const std::string title =
      "Name   Category         Self %      Self     Total  Count      Mean     Min     p50"
      "       p99       Max\n";
  const std::string lines =
      "outer  user_annotation  79.31%  2.300 us  2.900 us      2  1.450 us  900 ns  900 ns"
      "  2.000 us  2.000 us\n"
      "inner  cpu_op           20.69%    600 ns    600 ns      2    300 ns  300 ns  300 ns"
      "    300 ns    300 ns\n";
  CHECK_EQ(s.to_string(),
           rule + title + rule + lines + rule +
               "Self time total: 2.900 us in 4 ranges on 2 threads, session 2.000 us\n"
               "Unfinished at stop: 1 (counted with the time until the stop)\n");
  CHECK(s.to_string(1).find("(1 more rows)\n") != std::string::npos);
  CHECK(s.to_string(2).find("more rows") == std::string::npos);
  Summary nothing;
  nothing.rows.resize(1);
  CHECK(nothing.to_string().find("  -  ") != std::string::npos);  // a share of nothing
}

TEST(table_is_aligned_and_says_what_is_missing) {
  CaptureBuilder b;
  const uint32_t plain = b.site("plain"), accent = b.site("\xC3\xA9mile\nx"),
                 lengthy = b.site(std::string(200, 'n'));
  b.track(1, "");
  b.row(plain, 0, 1500);
  b.row(accent, 1500, -1);
  b.row(lengthy, 1600, 1601);
  b.capture.dropped[static_cast<size_t>(DropCause::bound)] = 7;
  b.capture.dropped[static_cast<size_t>(DropCause::in_flight)] = 1;
  b.capture.dropped[static_cast<size_t>(DropCause::names)] = 3;
  b.capture.dropped[static_cast<size_t>(DropCause::ends)] = 2;
  b.capture.exact_stop = false;
  const Summary s = summarise(b.finish());
  std::ostringstream out;
  out << s;
  const std::string text = out.str();
  CHECK(text == to_string(s));
  CHECK(text.find("Dropped: 8 (bound 7, in_flight 1)\n") != std::string::npos);
  CHECK(text.find("shared or cut: 3") != std::string::npos);
  CHECK(text.find("Ends that found no room: 2 (shown as unfinished)\n") != std::string::npos);
  CHECK(text.find("Unfinished at stop: 1") != std::string::npos);
  CHECK(text.find("not exact") != std::string::npos);
  CHECK(text.find("1.500 us") != std::string::npos);
  CHECK(text.find("\xC3\xA9mile?x") != std::string::npos);
  CHECK(text.find(std::string(52, 'n') + "...  user_annotation") != std::string::npos);
  // Every table line is as wide as its rule.
  std::istringstream lines(text);
  std::string line;
  size_t rule = 0, checked = 0;
  for (int i = 0; i < 7 && std::getline(lines, line); ++i) {
    size_t width = 0;
    for (const char c : line) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (i == 0) rule = width;
    CHECK_EQ(width, rule);
    ++checked;
  }
  CHECK_EQ(checked, size_t{7});
  CHECK(s.to_string(1).find("(2 more rows)") != std::string::npos);
}

TEST(empty_capture) {
  const Summary s = summarise(Capture{});
  CHECK_EQ(s.size(), size_t{0});
  CHECK(s.to_string().find("0 ranges") != std::string::npos);
}

TEST(random_against_sorting) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 60; ++round) {
    CaptureBuilder b;
    const uint32_t sites = 1 + static_cast<uint32_t>(random() % 6);
    for (uint32_t i = 0; i < sites; ++i) b.site("s" + std::to_string(i));
    std::map<std::string, std::vector<int64_t>> expected;
    for (int t = 0; t < 3; ++t) {
      b.track(t + 1, "");
      int64_t at = 0;
      for (uint64_t n = random() % 300; n > 0; --n) {
        const auto site = static_cast<uint32_t>(random() % sites);
        const auto duration = static_cast<int64_t>(random() % 50);
        at += static_cast<int64_t>(random() % 30);
        b.row(site, at, at + duration);
        expected["s" + std::to_string(site)].push_back(duration);
      }
    }
    const Summary s = summarise(b.finish());
    CHECK_EQ(s.size(), expected.size());
    int64_t self = 0, own = 0;
    for (const SummaryRow& row : s) {
      std::vector<int64_t>& d = expected[row.name];
      std::sort(d.begin(), d.end());
      const auto rank = [&](double q) {
        return d[static_cast<size_t>(std::ceil(q * static_cast<double>(d.size()) - 1e-9)) - 1];
      };
      CHECK_EQ(row.count, d.size());
      CHECK_EQ(row.min_ns, d.front());
      CHECK_EQ(row.max_ns, d.back());
      CHECK_EQ(row.p50_ns, rank(0.5));
      CHECK_EQ(row.p99_ns, rank(0.99));
      self += row.self_ns;
    }
    for (size_t i = 0; i < b.capture.size();
         ++i) {  // the sum of self times is that of the roots' durations
      if (b.capture.parent[i] < 0) own += b.capture.end_ns[i] - b.capture.start_ns[i];
    }
    CHECK_EQ(self, own);
    CHECK_EQ(self, s.self_total_ns);
  }
}

TEST(malformed_captures_are_refused) {
  CaptureBuilder b;
  const uint32_t site = b.site("x", EventKind::range, "c", {{"n", ArgType::int64}});
  b.track(1, "");
  b.row(site, 0, 1, {5});
  b.finish();
  const auto refused = [&](auto&& change) {
    Capture bad = b.capture;
    change(bad);
    CHECK_THROWS(ValueError, summarise(bad));
  };
  refused([](Capture& c) { c.site[0] = 9; });
  refused([](Capture& c) { c.parent[0] = 0; });
  refused([](Capture& c) { c.payload[0] = 1; });
  refused([](Capture& c) { c.flags[0] |= event_flag::detail; });
  refused([](Capture& c) { c.end_ns.clear(); });
}
