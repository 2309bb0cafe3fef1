// SPDX-License-Identifier: Apache-2.0
// merge_captures: the rows of several processes in one capture, with all that they refer to.
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "../check.hpp"
#include "capture_builder.hpp"
#include "fastprof/capture/merge_captures.hpp"
#include "fastprof/export/chrome_trace.hpp"
#include "fastprof/export/details.hpp"
#include "fastprof/export/perfetto_trace.hpp"
#include "rich_capture.hpp"
#include "text_checks.hpp"

using namespace fastprof;
using fastprof_test::CaptureBuilder;
using text_checks::count_of;

namespace {

// The contents of a row, without the numbers that a merge changes.
std::string text_of(const Capture& capture, size_t row, int64_t shift) {
  const SiteInfo& site = capture.sites[capture.site[row]];
  std::ostringstream out;
  out << site.name << ' ' << site.line << ' ' << capture.start_ns[row] + shift << ' '
      << capture.end_ns[row] + shift << ' ' << static_cast<int>(capture.kind[row]) << ' '
      << static_cast<int>(capture.flags[row]) << ' ' << capture.tracks[capture.track[row]].name;
  if (capture.parent[row] >= 0)
    out << " in " << capture.start_ns[static_cast<size_t>(capture.parent[row])] + shift;
  if (capture.payload[row] == kNoPayload) return out.str();
  const uint64_t* words = capture.payload_words.data() + capture.payload[row];
  const bool typed = is_any_range(site.kind) || site.kind == EventKind::mark;
  for (size_t i = 0; i < payload_words_of(site); ++i) {
    if (typed && site.arg_types[i] == ArgType::string)
      out << " s:" << capture_string(capture, words[i]);
    else
      out << ' ' << words[i];
  }
  for_each_detail(capture, row, [&](DetailType type, const uint64_t* contents, size_t count) {
    out << " b" << static_cast<int>(type);
    for (size_t i = 0; i < count; ++i) {
      if (i == 0 && (is_text(type) || type == DetailType::python_stack))
        out << " t:" << capture_string(capture, contents[0]);
      else if (type == DetailType::op && i == 1)
        out << (contents[1] != 0 ? " backward" : " forward");
      else
        out << ' ' << contents[i];
    }
  });
  return out.str();
}

Capture of_process(int64_t pid, int64_t at = 0) {
  CaptureBuilder b;
  b.capture.pid = pid;
  b.capture.process_name = "process of " + std::to_string(pid);
  const uint32_t range = b.site("range"), op = b.site("op", EventKind::range, "cpu_op"),
                 out = b.site("out", EventKind::flow_begin), in = b.site("in", EventKind::flow_end),
                 count = b.site("count", EventKind::counter, "counter", {{"v", ArgType::int64}});
  b.track(pid, "main");
  b.row(range, at + 10, at + 100);
  b.instant(out, at + 20, {7});
  b.instant(in, at + 30, {7});
  b.instant(out, at + 40, {static_cast<uint64_t>(pid)});
  b.row(op, at + 50, at + 60, {5, detail_block_word(DetailType::op, 4), 77, 1, 5, 0},
        event_flag::detail);
  b.instant(count, at + 70, {3});
  b.row(range, at + 80, -1);
  return b.finish();
}

}  // namespace

TEST(every_row_says_what_it_said) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const Capture first = fastprof_test::rich_capture();
    Capture second = fastprof_test::random_capture(seed), third = fastprof_test::rich_capture();
    second.pid = 5000;
    third.pid = 6000;
    for (Capture* each : {&second, &third})
      for (TrackInfo& track : each->tracks) track.pid = each->pid;
    validate_capture(second);
    const std::vector<CapturePart> parts = {{&first}, {&second, 1000}, {&third, -5}};
    const Capture all = merge_captures(parts);
    validate_capture(all);
    CHECK_EQ(all.size(), first.size() + second.size() + third.size());
    std::set<uint32_t> ids;
    for (const TrackInfo& track : all.tracks) CHECK(ids.insert(track.id).second);
    size_t row = 0;
    for (const CapturePart& part : parts) {
      const Capture& from = *part.capture;
      for (size_t i = 0; i < from.size(); ++i, ++row) {
        const bool flow =
            from.kind[i] == EventKind::flow_begin || from.kind[i] == EventKind::flow_end;
        const std::string expected = text_of(from, i, part.shift_ns);
        // Addresses, flows and threads of other processes change: see the other tests.
        if (&from != &first && (flow || expected.find(" b3") != std::string::npos)) continue;
        CHECK_EQ(text_of(all, row, 0), expected);
        CHECK_EQ(all.tracks[all.track[row]].pid, from.tracks[from.track[i]].pid);
      }
    }
    CHECK_EQ(all.dropped[static_cast<size_t>(DropCause::bound)],
             first.dropped[static_cast<size_t>(DropCause::bound)] * 2 +
                 second.dropped[static_cast<size_t>(DropCause::bound)]);
  }
}

TEST(traces_show_each_process_once) {
  const Capture a = of_process(100), b = of_process(200);
  const Capture all = merge_captures({{&a}, {&b}, {&b, 1000000, INT64_MIN, "executed later"}});
  std::ostringstream chrome, perfetto;
  ChromeTraceOptions options;
  options.window_marks = ChromeTraceOptions::KinetoPart::never;
  write_chrome_trace(all, chrome, options);
  CHECK_EQ(count_of(chrome.str(), "\"process_name\""), size_t{2});
  CHECK_EQ(count_of(chrome.str(), "\"process of 100\""), size_t{1});
  CHECK_EQ(count_of(chrome.str(), "\"executed later\""), size_t{1});
  write_perfetto_trace(all, perfetto);
  // A counter of the same name in each: field 2, its name, and field 8, which is empty.
  CHECK_EQ(count_of(perfetto.str(), {"\x12\5count\x42\0", 9}), size_t{2});
  CHECK_EQ(count_of(perfetto.str(), "process of 100"), size_t{1});
  CHECK_EQ(count_of(perfetto.str(), "executed later"), size_t{1});
}

TEST(correlations_of_processes_are_kept_apart) {
  const auto process = [](int64_t pid) {
    CaptureBuilder b;
    b.capture.pid = pid;
    const std::vector<std::pair<std::string, ArgType>> args = {
        {"other", ArgType::uint64},
        {"correlation", ArgType::uint64},
        {"wait_on_cuda_event_record_corr_id", ArgType::uint64}};
    const uint32_t call = b.site("launch", EventKind::range, "cuda_runtime", args),
                   work = b.site("kernel", EventKind::range, "kernel", args),
                   user = b.site("user", EventKind::range, "user_annotation", args);
    b.capture.sites[call].mask = category::runtime;
    b.capture.sites[work].mask = category::device;
    b.track(pid, "main");
    b.row(user, 0, 100, {1, 2, 3});
    b.row(call, 1, 2, {1, 5, 6});
    b.capture.tracks[b.track(7, "queue")].device_index = 2;
    b.capture.tracks.back().pid = 2;
    b.row(work, 3, 4, {1, 5, UINT64_MAX});
    b.row(work, 5, 6, {1, 0, 4});
    b.finish().device_links = {{1, -1, 0, 5}, {2, 1, 0, 5}, {3, -1, -1, 0}};
    return b.capture;
  };
  const Capture a = process(100), b = process(200);
  const Capture all = merge_captures({{&a}, {&b}});
  validate_capture(all);
  const auto words = [&](size_t row) {
    const uint64_t* first = all.payload_words.data() + all.payload[row];
    return std::vector<uint64_t>(first, first + 3);
  };
  using Words = std::vector<uint64_t>;
  CHECK(words(0) == (Words{1, 2, 3}) && words(4) == (Words{1, 2, 3}));  // a user's own names
  CHECK(words(1) == (Words{1, 5, 6}) && words(5) == (Words{1, 10, 11}));
  CHECK(words(2) == (Words{1, 5, UINT64_MAX}) && words(6) == (Words{1, 10, UINT64_MAX}));
  CHECK(words(3) == (Words{1, 0, 4}) && words(7) == (Words{1, 0, 9}));
  std::vector<std::vector<int64_t>> links;
  for (const DeviceLink& link : all.device_links)
    links.push_back({link.row, link.call, link.range, link.correlation});
  CHECK(links == (std::vector<std::vector<int64_t>>{{1, -1, 0, 5},
                                                    {2, 1, 0, 5},
                                                    {3, -1, -1, 0},
                                                    {5, -1, 4, 10},
                                                    {6, 5, 4, 10},
                                                    {7, -1, -1, 0}}));
  // A device of another process is a process of its own; once it is, it stays.
  CHECK_EQ(all.tracks[1].pid, 2);
  CHECK_EQ(all.tracks[3].pid, 100200002);
  const Capture third = process(300);
  const Capture again = merge_captures({{&third}, {&all}});
  CHECK_EQ(again.tracks[3].pid, device_pid_in(100, 2));
  CHECK_EQ(again.tracks[5].pid, 100200002);
}

TEST(what_is_said_of_the_whole_is_of_all_parts) {
  Capture a = of_process(100), b = of_process(200);
  a.node_id = 4;
  a.clock_error_ns = 30;
  b.clock_error_ns = 50;
  a.clamped = 2;
  b.clamped = 3;
  b.counter_names = {"cycles"};
  const auto merged = [&] { return merge_captures({{&a, 100}, {&b, -100}}); };
  const Capture all = merged();
  CHECK_EQ(all.t0_ns, a.t0_ns + 100);
  CHECK_EQ(all.t1_ns, a.t1_ns + 100);
  CHECK_EQ(merge_captures({{&a, -100}, {&b, 100}}).t1_ns, b.t1_ns + 100);
  CHECK_EQ(all.pid, 100);
  CHECK_EQ(all.node_id, 4);
  CHECK_EQ(all.clock_error_ns, 50);
  CHECK_EQ(all.clamped, uint64_t{5});
  CHECK(all.exact_stop);
  CHECK(all.counter_names == std::vector<std::string>{"cycles"});
  CHECK_EQ(all.process_name, std::string("process of 100"));
  b.exact_stop = false;
  CHECK(!merged().exact_stop);
  b.exact_stop = true;
  a.exact_stop = false;
  CHECK(!merged().exact_stop);
  a.counter_names = {"instructions"};
  CHECK(merged().counter_names == std::vector<std::string>{"instructions"});
  CHECK_EQ(merge_captures({{&a, 0, INT64_MIN, "given"}}).process_name, std::string("given"));
  // A part may end after its session, if a row of it does.
  b.end_ns[0] = b.t1_ns + 77;
  CHECK_EQ(merge_captures({{&a}, {&b}}).t1_ns, b.t1_ns + 77);
}

TEST(nothing_to_merge_is_an_error) {
  CHECK_THROWS(ValueError, merge_captures({}));
}
