// SPDX-License-Identifier: Apache-2.0
// Captures for the writers' tests: one with every kind of row and special case, and random ones.
#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "capture_builder.hpp"
#include "fastprof/capture/shared_block.hpp"
#include "fastprof/payload/blocks/detail_block.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"

namespace fastprof_test {
namespace {

// 13 slices, 2 marks, 3 counter values, 1 arrow, 2 memory rows, 1 out of memory;
// test_trace_readers.py knows them by name.
inline fastprof::Capture rich_capture() {
  using namespace fastprof;
  CaptureBuilder b;
  const uint32_t step = b.site("step"), op = b.site("aten::mm", EventKind::range, "cpu_op");
  const uint32_t args = b.site("typed \"args\"", EventKind::range, "user_annotation",
                               {{"i", ArgType::int64},
                                {"u", ArgType::uint64},
                                {"f", ArgType::float64},
                                {"nan", ArgType::float64},
                                {"inf", ArgType::float64},
                                {"b", ArgType::boolean},
                                {"s", ArgType::string},
                                {"p", ArgType::pointer},
                                {"finished", ArgType::int64}});
  const uint32_t copy = b.site("copy", EventKind::async_range, "async");
  const uint32_t moved = b.site("moved"), open = b.site("open"),
                 after = b.site("after\\", EventKind::range, "ends in \\"), tiny = b.site("tiny");
  const uint32_t mark = b.site("mark", EventKind::mark, "user_annotation", {{"n", ArgType::int64}});
  const uint32_t loss =
      b.site("loss", EventKind::counter, "counter", {{"value", ArgType::float64}});
  const uint32_t items =
      b.site("items", EventKind::counter, "counter", {{"value", ArgType::int64}});
  const uint32_t out = b.site("launch", EventKind::flow_begin, "flow"),
                 in = b.site("arrive", EventKind::flow_end, "flow");
  const uint32_t memory = b.site("[memory]", EventKind::memory),
                 oom = b.site("[OutOfMemory]", EventKind::out_of_memory);
  b.capture.sites[memory].device_type = b.capture.sites[oom].device_type = 1;
  b.capture.sites[memory].function = b.capture.sites[oom].function = "";  // as recorded
  b.capture.sites[memory].device_index = b.capture.sites[oom].device_index = 2;
  const uint32_t kernel = b.site("kernel on \xF0\x9F\x9A\x80\n\xFF");
  const uint64_t text = b.string("a\"b\\\x01\xED\xA0\x80\xC3\xA9");
  const uint64_t json =
      b.string("{\"Input Dims\": [[2, 3], []], \"Concrete Inputs\": [\"\", \"1\"]}");
  const uint64_t modules = b.string("TOP(M)::forward.a(\"A\")::forward.");
  b.capture.counter_names = {"cycles", "instructions"};

  b.track(4242, "main");
  b.row(step, 1000, 100000);
  constexpr uint32_t written = detail_flag::written;
  // clang-format off
  b.row(op, 2000, 40000,
        {24,
         detail_block_word(DetailType::op, 4), 77, 0, 5, static_cast<uint64_t>(-1),
         detail_block_word(DetailType::counters_begin, 4, written), 100, 1000, 50, 50,
         detail_block_word(DetailType::counters_end, 4, written), 350, 1200, 90, 70,
         detail_block_word(DetailType::cpp_stack, 2), 0xdeadbeef, 0x1000,
         detail_block_word(DetailType::json, 1), json,
         detail_block_word(DetailType::nothing, 1), 0x77,
         detail_block_word(DetailType::modules, 1), modules},
        event_flag::detail);
  // clang-format on
  b.instant(out, 2500, {uint64_t{1} << 60});
  b.row(args, 3000, 30000,
        {static_cast<uint64_t>(-5), std::numeric_limits<uint64_t>::max(), word_of(0.25),
         word_of(std::nan("")), word_of(-std::numeric_limits<double>::infinity()), 1, text, 0xabc,
         9});
  b.instant(mark, 3100, {11});
  b.instant(memory, 3200, {0x7f0000001000, 512, 4096, 8192});
  b.instant(memory, 3300, {0x7f0000001000, static_cast<uint64_t>(-512), 3584, 8192});
  b.instant(oom, 3400, {1 << 20, 3584, 8192});
  b.row(copy, 5000, 60000);
  b.row(copy, 6000, 90000);
  const size_t crossed = b.row(moved, 7000, 120000);
  b.row(tiny, 40000, 40000);
  b.instant(loss, 50000, {word_of(0.5)});
  b.instant(loss, 51000, {word_of(0.25)});
  b.instant(items, 52000, {static_cast<uint64_t>(-3)});
  b.row(tiny, 100000, 100000);
  b.row(step, 100000, 200000);
  b.row(open, 150000, -1);  // outlives the step it was begun in
  b.row(after, 160000, 170000);
  b.track(4300, "worker \"1\"");
  b.instant(mark, 500, {12});
  b.row(kernel, 3000, 9000);
  b.instant(in, 3500, {uint64_t{1} << 60});
  b.ended_on(crossed, 1);
  b.track(4300, "worker again");  // the kernel reused the number
  b.row(step, 300000, 300001);
  b.capture.dropped[static_cast<size_t>(DropCause::bound)] = 3;
  b.capture.dropped[static_cast<size_t>(DropCause::names)] = 2;
  b.capture.clock_error_ns = 17;
  return b.finish();
}

// Names of any bytes, all kinds, partial overlaps, async, crossed ends, unfinished, payloads of
// every type.
inline fastprof::Capture random_capture(uint64_t seed, size_t rows_per_track = 60) {
  using namespace fastprof;
  std::mt19937_64 random(seed);
  const auto below = [&random](uint64_t n) { return random() % n; };
  const auto bytes = [&](size_t limit) {
    std::string text(below(limit), ' ');
    const bool wild = below(2) == 0;
    for (char& c : text) c = static_cast<char>(wild ? below(256) : 32 + below(95));
    return text;
  };
  CaptureBuilder b(1'700'000'000'000'000'000 + static_cast<int64_t>(below(1'000'000'000)), 5000);
  b.capture.process_name = bytes(12);
  const auto sites = static_cast<uint32_t>(1 + below(16));
  for (uint32_t i = 0; i < sites; ++i) {
    const EventKind kind = static_cast<EventKind>(below(3) == 0 ? below(9) : 0);
    std::vector<std::pair<std::string, ArgType>> arguments;
    if (kind == EventKind::range || kind == EventKind::async_range || kind == EventKind::mark) {
      for (uint64_t n = below(4); n > 0; --n)
        arguments.emplace_back(bytes(8) + std::to_string(n), static_cast<ArgType>(below(6)));
    } else if (kind == EventKind::counter) {
      arguments.emplace_back("value", static_cast<ArgType>(below(4)));
    }
    b.site(bytes(below(20) == 0 ? 3000 : 20), kind, bytes(8), std::move(arguments));
  }
  for (int i = 0; i < 4; ++i) b.string(below(2) ? bytes(300) : "{\"k\": [1, {\"x\": null}]}");
  b.capture.counter_names = {bytes(6), bytes(6)};
  std::vector<uint32_t> shared;  // blocks of inputs that rows refer to
  for (uint64_t n = below(3); n > 0; --n) {
    shared.push_back(static_cast<uint32_t>(b.capture.payload_words.size()));
    const uint64_t count = below(4);
    b.capture.payload_words.push_back(
        detail_block_word(DetailType::op_inputs, static_cast<uint32_t>(count)));
    for (uint64_t w = 0; w < count; ++w) b.capture.payload_words.push_back(random());
  }
  const uint64_t tracks = below(4);
  for (uint64_t t = 0; t < tracks; ++t) {
    b.track(static_cast<int64_t>(below(3) == 0 ? 4242 : below(100000)), bytes(10));
    int64_t at = 0;
    for (uint64_t n = below(rows_per_track); n > 0; --n) {
      const auto site = static_cast<uint32_t>(below(sites));
      const SiteInfo& info = b.capture.sites[site];
      at += static_cast<int64_t>(below(3) == 0 ? 0 : below(40));
      int64_t end = at;
      if (is_any_range(info.kind))
        end = below(12) == 0 ? -1 : at + static_cast<int64_t>(below(2) ? below(20) : below(400));
      std::vector<uint64_t> words;
      const size_t needed = payload_words_of(info);
      const bool detail = is_any_range(info.kind) && below(5) == 0;
      if (detail || (needed > 0 && below(10) != 0)) {
        for (size_t w = 0; w < needed; ++w) words.push_back(below(3) == 0 ? below(6) : random());
      }
      if (detail) {
        const uint64_t count = below(12);
        words.push_back(count);
        for (uint64_t w = 0; w < count; ++w)
          words.push_back(below(2)   ? detail_block_word(static_cast<DetailType>(below(10)),
                                                         static_cast<uint32_t>(below(5)))
                          : below(3) ? below(6)
                          : below(2) && !shared.empty()
                              ? shared_block_word(shared[below(shared.size())])
                              : random() | 1);  // odd numbers are never references
      }
      const size_t row =
          b.row(site, at, end, words,
                static_cast<uint8_t>((detail ? event_flag::detail : 0) |
                                     (below(30) == 0 ? event_flag::clock_discontinuity : 0)));
      if (info.kind == EventKind::range && below(10) == 0)
        b.ended_on(row, static_cast<uint32_t>(below(b.capture.tracks.size())));
    }
  }
  return b.finish();
}

}  // namespace
}  // namespace fastprof_test
