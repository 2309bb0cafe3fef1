// SPDX-License-Identifier: Apache-2.0
// Detail blocks: readers of a capture find what was written at begin and end of a range, and
// nothing is invented.

#include "check.hpp"
#include "fake_perf_system.hpp"
#include "fastprof/payload/blocks/decode_detail.hpp"

using namespace fastprof;
using namespace fastprof_test;

static void set_fake(uint64_t enabled, uint64_t running, uint64_t a, uint64_t b) {
  fake.enabled = enabled;
  fake.running = running;
  fake.values[0] = a;
  fake.values[1] = b;
}

static DetailOptions two_counters() {
  return options_for({"cycles", "instructions"});
}

// A capture of one range with two argument words and this variable part.
static Capture capture_of(const uint64_t* words, size_t count) {
  Capture capture;
  SiteInfo site;
  site.arg_names = {"a", "b"};
  site.arg_types = {ArgType::int64, ArgType::int64};
  capture.sites.push_back(site);
  capture.start_ns = {1};
  capture.end_ns = {2};
  capture.site = {0};
  capture.track = {0};
  capture.parent = {kNoParent};
  capture.kind = {EventKind::range};
  capture.flags = {event_flag::finished | event_flag::detail};
  capture.payload = {3};
  capture.payload_words = {9, 9, 9, 1, 2};
  capture.payload_words.insert(capture.payload_words.end(), words, words + count);
  capture.counter_names = {"cycles", "instructions"};
  return capture;
}

TEST(counters_begin_and_end) {
  const DetailOptions options = two_counters();
  ThreadDetail detail{};
  uint64_t words[kMaxDetailWords];
  set_fake(100, 100, 1000, 2000);
  const size_t used =
      encode_detail_begin(words, kMaxDetailWords, options, &detail, nullptr, &kFake);
  CHECK_EQ(used, size_t{12});
  CHECK_EQ(used, max_detail_words(options));
  CHECK_EQ(words[0], uint64_t{11});
  CounterDeltas deltas = decode_counters(capture_of(words, used), 0);
  CHECK(deltas.status == CounterStatus::open);
  CHECK_EQ(deltas.begin[1], uint64_t{2000});
  set_fake(300, 300, 1010, 2500);
  encode_detail_end(words, &detail);
  deltas = decode_counters(capture_of(words, used), 0);
  CHECK(deltas.status == CounterStatus::counted);
  CHECK_EQ(deltas.count, 2u);
  CHECK_EQ(deltas.delta[0], 10.0);
  CHECK_EQ(deltas.delta[1], 500.0);
  CHECK_EQ(deltas.counted_fraction, 1.0);
  CHECK(!decode_cpp_stack(capture_of(words, used), 0).addresses);
  close_thread_detail(&detail);
}

TEST(malformed_payloads_are_refused) {
  DetailOptions options = two_counters();
  options.cpp_stack = true;
  options.max_frames = 8;
  ThreadDetail detail{};
  uint64_t words[kMaxDetailWords];
  set_fake(1, 1, 5, 6);
  const size_t used =
      encode_detail_begin(words, kMaxDetailWords, options, &detail, nullptr, &kFake);
  encode_detail_end(words, &detail);
  close_thread_detail(&detail);
  const Capture good = capture_of(words, used);
  CHECK(decode_cpp_stack(good, 0).count != 0);
  CHECK(!find_detail_block(good, 1, DetailType::cpp_stack).found);
  for (size_t cut = 0; cut < used; ++cut) {
    const Capture bad = capture_of(words, cut);
    CHECK(!decode_cpp_stack(bad, 0).addresses);
    CHECK(decode_counters(bad, 0).status == CounterStatus::none);
  }
  uint64_t seed = 7;
  for (int round = 0; round < 20000; ++round) {
    Capture bad = good;
    for (int i = 0; i < 3; ++i) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const size_t at = 5 + (seed >> 33) % used;
      bad.payload_words[at] ^= uint64_t{1} << (seed >> 20 & 63);
    }
    if (round % 7 == 0) bad.payload[0] = static_cast<uint32_t>(seed >> 40);
    if (round % 11 == 0) bad.site[0] = 1;
    const CppStackFrames frames = decode_cpp_stack(bad, 0);
    CHECK(frames.count <= bad.payload_words.size());
    if (frames.count != 0)
      CHECK(frames.addresses + frames.count <= bad.payload_words.data() + bad.payload_words.size());
    decode_counters(bad, 0);
  }
}
