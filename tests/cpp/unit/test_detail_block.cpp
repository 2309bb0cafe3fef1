// SPDX-License-Identifier: Apache-2.0
// Detail blocks: readers of a capture find what was written at begin and end of a range, and
// nothing is invented.
#include <cstring>

#include "check.hpp"
#include "fake_perf_system.hpp"
#include "fastprof/payload/blocks/decode_detail.hpp"
#include "fastprof/payload/perf_counters/counter_probe.hpp"

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

TEST(multiplexed_counters_are_scaled_and_flagged) {
  const DetailOptions options = two_counters();
  ThreadDetail detail{};
  uint64_t words[12];
  set_fake(100, 60, 1000, 2000);
  CHECK_EQ(encode_detail_begin(words, 12, options, &detail, nullptr, &kFake), size_t{12});
  set_fake(300, 110, 1010, 2500);  // on for 50 of 200 ns
  encode_detail_end(words, &detail);
  CounterDeltas deltas = decode_counters(capture_of(words, 12), 0);
  CHECK(deltas.status == CounterStatus::scaled);
  CHECK_EQ(deltas.delta[0], 40.0);
  CHECK_EQ(deltas.delta[1], 2000.0);
  CHECK_EQ(deltas.counted_fraction, 0.25);
  CHECK_EQ(encode_detail_begin(words, 12, options, &detail, nullptr, &kFake), size_t{12});
  set_fake(400, 110, 1010, 2500);
  encode_detail_end(words, &detail);
  deltas = decode_counters(capture_of(words, 12), 0);
  CHECK(deltas.status == CounterStatus::not_counted);
  CHECK_EQ(deltas.counted_fraction, 0.0);
  close_thread_detail(&detail);
}

TEST(an_end_of_other_counters_ends_nothing) {
  const DetailOptions options = two_counters();
  ThreadDetail detail{};
  uint64_t words[12];
  set_fake(100, 100, 1000, 2000);
  CHECK_EQ(encode_detail_begin(words, 12, options, &detail, nullptr, &kFake), size_t{12});
  set_fake(300, 300, 1010, 2500);
  encode_detail_end(words, &detail);
  CHECK(decode_counters(capture_of(words, 12), 0).status == CounterStatus::counted);
  for (size_t i = 0; i < 12; ++i) {
    if ((words[i] & 0xFFFF) != static_cast<uint64_t>(DetailType::counters_end)) continue;
    words[i] -= uint64_t{1} << 16;  // one word fewer: of fewer counters
    words[11] = detail_block_word(DetailType::nothing, 0);
  }
  CHECK(decode_counters(capture_of(words, 12), 0).status == CounterStatus::open);
  close_thread_detail(&detail);
}

TEST(counters_that_do_not_open_say_why_and_are_not_tried_again) {
  const DetailOptions options = two_counters();
  ThreadDetail detail{};
  uint64_t words[12];
  fake = Fake{};
  fake.fail_type = PERF_TYPE_HARDWARE;
  fake.fail_error = EMFILE;
  for (int i = 0; i < 3; ++i) {
    CHECK_EQ(encode_detail_begin(words, 12, options, &detail, nullptr, &kFake), size_t{12});
    encode_detail_end(words, &detail);
    const CounterDeltas deltas = decode_counters(capture_of(words, 12), 0);
    CHECK(deltas.status == CounterStatus::unavailable);
    CHECK_EQ(deltas.error, EMFILE);
    CHECK_EQ(deltas.begin[0], uint64_t{0});
  }
  CHECK_EQ(fake.open_count, 1);
  fake.fail_type = ~0u;
  close_thread_detail(&detail);
  CHECK_EQ(encode_detail_begin(words, 12, options, &detail, nullptr, &kFake), size_t{12});
  CHECK_EQ(fake.open_count, 3);
  close_thread_detail(&detail);
}

TEST(a_range_that_outlives_its_counters_has_no_end) {
  ThreadDetail detail{};
  uint64_t words[12], other[12];
  set_fake(100, 100, 1000, 2000);
  const DetailOptions options = two_counters();
  encode_detail_begin(words, 12, options, &detail, nullptr, &kFake);
  DetailOptions swapped = options;
  std::swap(swapped.counters[0], swapped.counters[1]);
  encode_detail_begin(other, 12, swapped, &detail, nullptr, &kFake);
  encode_detail_end(words, &detail);
  CHECK(decode_counters(capture_of(words, 12), 0).status == CounterStatus::open);
  encode_detail_end(other, &detail);
  CHECK(decode_counters(capture_of(other, 12), 0).status == CounterStatus::counted);
  // Only the stack's options change: the counters continue.
  DetailOptions deeper = swapped;
  deeper.max_frames = 5;
  uint64_t third[12];
  fake.open_count = 0;
  encode_detail_begin(third, 12, deeper, &detail, nullptr, &kFake);
  CHECK_EQ(fake.open_count, 0);
  encode_detail_end(other, &detail);
  CHECK(decode_counters(capture_of(other, 12), 0).status == CounterStatus::counted);
  close_thread_detail(&detail);
}

TEST(stack_and_counters_together) {
  DetailOptions options = two_counters();
  options.cpp_stack = true;
  options.max_frames = 20;
  ThreadDetail detail{};
  std::vector<uint64_t> words(max_detail_words(options) + 1, 77);
  set_fake(1, 1, 5, 6);
  const size_t used = encode_detail_begin(words.data(), max_detail_words(options), options, &detail,
                                          nullptr, &kFake);
  CHECK(used % 3 == 0 && used > 12 && used <= max_detail_words(options));
  CHECK_EQ(words[max_detail_words(options)], uint64_t{77});
  set_fake(2, 2, 7, 9);
  encode_detail_end(words.data(), &detail);
  const Capture capture = capture_of(words.data(), used);
  const CppStackFrames frames = decode_cpp_stack(capture, 0);
  CHECK(frames.count >= 3);
  CHECK(!frames.truncated);
  uint64_t mine[kMaxCppFrames];
  const CppStack here = capture_cpp_stack(mine, kMaxCppFrames, nullptr, StackMethod::unwind_tables,
                                          thread_stack_bounds());
  // The outer frames are the same from here; the innermost lies in this test.
  for (uint32_t i = 1; i < here.count && i < frames.count; ++i)
    CHECK_EQ(frames.addresses[frames.count - i], mine[here.count - i]);
  CHECK_EQ(decode_counters(capture, 0).delta[1], 3.0);
  // With less room there are fewer frames, marked as truncated; without room for the counters, no
  // block.
  const size_t less = encode_detail_begin(words.data(), 14, options, &detail, nullptr, &kFake);
  CHECK_EQ(less, size_t{12});
  const Capture cut = capture_of(words.data(), less);
  CHECK(decode_cpp_stack(cut, 0).truncated);
  CHECK_EQ(encode_detail_begin(words.data(), 11, options, &detail, nullptr, &kFake), size_t{0});
  close_thread_detail(&detail);
}

TEST(real_counters_of_a_range) {
  DetailOptions options{};
  const CounterProbe probe = probe_counters({"page-faults", "task-clock"}, &options);
  if (!probe.available) {
    CHECK(!probe.reason.empty());
    return;
  }
  ThreadDetail detail{};
  uint64_t words[12];
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  auto* memory = static_cast<volatile char*>(
      ::mmap(nullptr, 16 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ::madvise(const_cast<char*>(memory), 16 * page, MADV_NOHUGEPAGE);
  CHECK_EQ(encode_detail_begin(words, 12, options, &detail), size_t{12});
  for (size_t i = 0; i < 16; ++i) memory[i * page] = 1;
  encode_detail_end(words, &detail);
  const CounterDeltas deltas = decode_counters(capture_of(words, 12), 0);
  CHECK(deltas.status == CounterStatus::counted);
  CHECK(deltas.delta[0] >= 16 && (FASTPROF_TSAN || deltas.delta[0] < 24));
  CHECK(deltas.delta[1] > 0);
  close_thread_detail(&detail);
  ::munmap(const_cast<char*>(memory), 16 * page);
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

// A header, two blocks of the counters, a block of frames, a block of two words for the joined
// stack; in units of three words.
TEST(the_bound_of_words_is_a_multiple_of_3) {
  struct Case {
    uint32_t counters;
    int frames;  // -1: no stack
    bool joined;
    size_t words;
  };
  const Case cases[] = {{0, -1, false, 3}, {0, -1, true, 3},  {0, 0, false, 3},
                        {0, 1, false, 3},  {0, 2, false, 6},  {0, 4, false, 6},
                        {0, 5, false, 9},  {0, 2, true, 6},   {0, 3, true, 9},
                        {1, -1, false, 9}, {1, 0, false, 12}, {2, -1, false, 12},
                        {2, 0, false, 12}, {2, 1, false, 15}, {4, -1, false, 15},
                        {4, 0, true, 18},  {4, 1, true, 21}};
  for (const Case& c : cases) {
    DetailOptions options{};
    options.counter_count = c.counters;
    options.cpp_stack = c.frames >= 0;
    options.max_frames = c.frames >= 0 ? static_cast<uint32_t>(c.frames) : 9;
    options.joined_stack = c.joined;
    CHECK_EQ(max_detail_words(options), c.words);
  }
  DetailOptions most{};
  most.counter_count = 1000;
  most.cpp_stack = most.joined_stack = true;
  most.max_frames = 100000;
  CHECK_EQ(max_detail_words(most), kMaxDetailWords);
}

TEST(a_joined_stack_is_left_out_where_there_is_no_room) {
  DetailOptions options{};
  options.joined_stack = true;
  ThreadDetail detail{};
  const size_t capacities[] = {3, 4, 6};
  for (const size_t capacity : capacities) {
    uint64_t words[12] = {};
    CHECK_EQ(encode_detail_begin(words, capacity, options, &detail, nullptr, &kFake, 77), 3u);
    CHECK_EQ(words[0], 2u);
    CHECK_EQ(words[1], detail_block_word(DetailType::python_stack, 1));
    CHECK_EQ(words[2], 77u);
  }
  uint64_t none[12] = {};
  CHECK_EQ(encode_detail_begin(none, 3, options, &detail, nullptr, &kFake, 0), 3u);
  CHECK_EQ(none[1], 0u);
  CHECK_EQ(encode_detail_begin(none, 2, options, &detail, nullptr, &kFake, 77), 0u);
  close_thread_detail(&detail);
  // Counters that take the whole room: nothing is written behind it.
  DetailOptions counters = two_counters();
  counters.counter_count = 1;
  ThreadDetail counting{};
  uint64_t words[15];
  for (uint64_t& word : words) word = 5;
  CHECK_EQ(encode_detail_begin(words, 9, counters, &counting, nullptr, &kFake, 77), 9u);
  for (size_t i = 9; i < 15; ++i) CHECK_EQ(words[i], 5u);
  CHECK_EQ(encode_detail_begin(words, 12, counters, &counting, nullptr, &kFake, 77), 12u);
  CHECK_EQ(words[9], detail_block_word(DetailType::python_stack, 1));
  close_thread_detail(&counting);
}
