// SPDX-License-Identifier: Apache-2.0
// Words of counters and native stacks, one by one: what is written at begin and end of a range, and
// what a reader makes of words written by hand.
#include <cstring>
#include <vector>

#include "capture_builder.hpp"
#include "check.hpp"
#include "fake_perf_system.hpp"
#include "fastprof/payload/blocks/decode_detail.hpp"
#include "fastprof/payload/blocks/detail_block.hpp"

using namespace fastprof;
using namespace fastprof_test;
using Words = std::vector<uint64_t>;

namespace {

constexpr uint32_t kWritten = 1, kUnavailable = 2, kTruncated = 4;

uint64_t block(DetailType type, uint32_t count, uint32_t flags = 0) {
  return detail_block_word(type, count, flags);
}

// A capture of one row with these blocks.
Capture capture_of(Words blocks) {
  CaptureBuilder b;
  b.track(1, "main");
  blocks.insert(blocks.begin(), blocks.size());
  b.row(b.site("op"), 0, 10, blocks, event_flag::detail);
  return b.finish();
}
CounterDeltas counters_of(const Words& blocks) {
  return decode_counters(capture_of(blocks), 0);
}

// Blocks of two counters with these values, time enabled and time running.
Words counters_between(const Words& begin, const Words& end) {
  Words blocks = {block(DetailType::counters_begin, 4, kWritten)};
  blocks.insert(blocks.end(), begin.begin(), begin.end());
  blocks.push_back(block(DetailType::counters_end, 4, kWritten));
  blocks.insert(blocks.end(), end.begin(), end.end());
  return blocks;
}

uint32_t flags_of(uint64_t word) {
  return detail_block_of(word).reserved;
}

}  // namespace

TEST(flags_and_states_are_numbered) {
  CHECK(detail_flag::written == 1 && detail_flag::unavailable == 2 && detail_flag::truncated == 4);
  CHECK_EQ(CounterStatus::none, CounterStatus{0});
  CHECK_EQ(CounterStatus::counted, CounterStatus{1});
  CHECK_EQ(CounterStatus::scaled, CounterStatus{2});
  CHECK_EQ(CounterStatus::not_counted, CounterStatus{3});
  CHECK_EQ(CounterStatus::open, CounterStatus{4});
  CHECK_EQ(CounterStatus::unavailable, CounterStatus{5});
  CHECK_EQ(kMaxDetailWords, size_t{147});  // 4 counters twice, 128 frames, a joined stack
}

TEST(a_row_without_counters_has_none) {
  const CounterDeltas none = counters_of({block(DetailType::op, 0)});
  CHECK(none.status == CounterStatus::none);
  CHECK(none.error == 0 && none.count == 0 && none.counted_fraction == 1);
  for (const uint32_t count : {0u, 1u, 7u}) {  // less than the times, more than 4 counters
    Words blocks = {block(DetailType::counters_begin, count, kWritten)};
    blocks.resize(1 + count, 5);
    CHECK(counters_of(blocks).status == CounterStatus::none);
  }
  const CppStackFrames frames = decode_cpp_stack(capture_of({block(DetailType::op, 0)}), 0);
  CHECK(frames.addresses == nullptr && frames.count == 0 && !frames.truncated);
}

TEST(counters_of_any_number_up_to_four) {
  for (uint32_t count = 0; count <= 4; ++count) {
    Words blocks = {block(DetailType::counters_begin, count + 2, kWritten)};
    for (uint64_t i = 0; i < count; ++i) blocks.push_back(10 + i);
    blocks.insert(blocks.end(), {7, 7, block(DetailType::counters_end, count + 2, kWritten)});
    for (uint64_t i = 0; i < count; ++i) blocks.push_back(10 + 3 * i);
    blocks.insert(blocks.end(), {9, 9});
    const CounterDeltas deltas = counters_of(blocks);
    CHECK(deltas.status == CounterStatus::counted);
    CHECK_EQ(deltas.count, count);
    for (uint32_t i = 0; i < count; ++i) {
      CHECK_EQ(deltas.begin[i], 10 + i);
      CHECK_EQ(deltas.delta[i], 2.0 * i);
    }
  }
}

TEST(counts_are_scaled_to_the_time_of_the_range) {
  CounterDeltas deltas = counters_of(counters_between({100, 7, 50, 50}, {130, 7, 90, 90}));
  CHECK(deltas.status == CounterStatus::counted);
  CHECK(deltas.delta[0] == 30 && deltas.delta[1] == 0 && deltas.counted_fraction == 1);
  deltas = counters_of(counters_between({100, 7, 50, 20}, {130, 9, 90, 30}));
  CHECK(deltas.status == CounterStatus::scaled);
  CHECK(deltas.delta[0] == 120 && deltas.delta[1] == 8 && deltas.counted_fraction == 0.25);
  deltas = counters_of(counters_between({100, 7, 50, 20}, {130, 9, 90, 20}));
  CHECK(deltas.status == CounterStatus::not_counted);
  CHECK(deltas.delta[0] == 0 && deltas.delta[1] == 0 && deltas.counted_fraction == 0);
  deltas = counters_of(counters_between({100, 7, 50, 50}, {100, 7, 50, 50}));  // no time
  CHECK(deltas.status == CounterStatus::counted);
  deltas = counters_of(counters_between({100, 7, 50, 20}, {130, 9, 90, 21}));  // 1 of 40 ns
  CHECK(deltas.status == CounterStatus::scaled && deltas.delta[0] == 1200);
}

TEST(counters_without_an_end_are_open) {
  const Words whole = counters_between({100, 7, 50, 50}, {130, 7, 90, 90});
  Words blocks(whole.begin(), whole.begin() + 5);
  CHECK(counters_of(blocks).status == CounterStatus::open);  // no block of the end
  CHECK_EQ(counters_of(blocks).begin[0], 100u);
  blocks = whole;
  blocks[5] = block(DetailType::counters_end, 4);  // not written
  CHECK(counters_of(blocks).status == CounterStatus::open);
  blocks[5] = block(DetailType::counters_end, 3, kWritten);  // of other counters
  blocks[9] = block(DetailType::nothing, 0);
  CHECK(counters_of(blocks).status == CounterStatus::open);
  CHECK(counters_of(whole).status == CounterStatus::counted);
}

TEST(an_error_at_begin_or_end_is_told) {
  Words blocks = counters_between({0, 0, 0, 0}, {0, 0, 0, 0});
  const auto error_of = [&](uint32_t begin, uint32_t end) {
    blocks[0] = block(DetailType::counters_begin, 4, begin);
    blocks[5] = block(DetailType::counters_end, 4, end);
    const CounterDeltas deltas = counters_of(blocks);
    CHECK(deltas.status == CounterStatus::unavailable);
    CHECK_EQ(deltas.count, 2u);
    return deltas.error;
  };
  CHECK_EQ(error_of(kUnavailable | 0xAB00 | 24 << 16, kWritten), 24);
  CHECK_EQ(error_of(kWritten, kUnavailable | 13 << 16), 13);
  CHECK_EQ(error_of(kUnavailable | 24 << 16, kUnavailable | 13 << 16), 24);
}

TEST(a_stack_is_truncated_if_its_flag_is_set) {
  const auto frames_of = [](uint32_t flags) {
    const Capture capture = capture_of({block(DetailType::cpp_stack, 2, flags), 11, 12});
    const CppStackFrames frames = decode_cpp_stack(capture, 0);
    CHECK(frames.count == 2 && frames.addresses[0] == 11 && frames.addresses[1] == 12);
    return frames.truncated;
  };
  CHECK(frames_of(kTruncated) && frames_of(7));
  CHECK(!frames_of(0) && !frames_of(3));
}

TEST(the_first_block_of_a_type_is_found_with_its_flags) {
  const Capture capture = capture_of({block(DetailType::op, 1), 4, block(DetailType::json, 1, 9), 5,
                                      block(DetailType::json, 0, 8)});
  const DetailSpan json = find_detail_block(capture, 0, DetailType::json);
  CHECK(json.found && json.count == 1 && json.flags == 9 && json.words[0] == 5);
  const DetailSpan none = find_detail_block(capture, 0, DetailType::modules);
  CHECK(!none.found && none.count == 0 && none.flags == 0 && none.words == nullptr);
}

TEST(counters_are_written_at_begin_and_end) {
  fake = Fake{};
  const DetailOptions options = options_for({"cycles", "instructions"});
  ThreadDetail detail{};
  Words words(13, 5);
  fake.values[0] = 70;
  fake.values[1] = 71;
  CHECK_EQ(encode_detail_begin(words.data(), 13, options, &detail, nullptr, &kFake), 12u);
  // The header; of the first group of counters opened here.
  const uint32_t flags = kWritten | 1 << 8;
  Words expected = {11,
                    block(DetailType::counters_begin, 4, flags),
                    70,
                    71,
                    10,
                    10,
                    block(DetailType::counters_end, 4),
                    0,
                    0,
                    0,
                    0,
                    0,
                    5};
  CHECK(words == expected);
  fake.values[0] = 80;
  fake.values[1] = 90;
  fake.enabled = 33;
  fake.running = 22;
  encode_detail_end(words.data(), &detail);
  expected[6] = block(DetailType::counters_end, 4, flags);
  expected[7] = 80;
  expected[8] = 90;
  expected[9] = 33;
  expected[10] = 22;
  CHECK(words == expected);
  close_thread_detail(&detail);
}

TEST(counters_that_cannot_be_read_have_zeros_and_the_error) {
  fake = Fake{};
  fake.fail_at = 0;
  fake.fail_error = EMFILE;
  const DetailOptions options = options_for({"cycles"});
  ThreadDetail detail{};
  Words words(12, 5);
  CHECK_EQ(encode_detail_begin(words.data(), 12, options, &detail, nullptr, &kFake), 9u);
  const uint32_t flags = kUnavailable | 1 << 8 | EMFILE << 16;
  CHECK(words == (Words{8, block(DetailType::counters_begin, 3, flags), 0, 0, 0,
                        block(DetailType::counters_end, 3), 0, 0, 0, 5, 5, 5}));
  close_thread_detail(&detail);
}

TEST(counters_opened_anew_are_of_another_generation) {
  fake = Fake{};
  DetailOptions options = options_for({"cycles"});
  ThreadDetail detail{};
  Words words(9);
  const auto generation = [&] {
    CHECK_EQ(encode_detail_begin(words.data(), 9, options, &detail, nullptr, &kFake), 9u);
    return flags_of(words[1]) >> 8;
  };
  CHECK_EQ(generation(), 1u);
  CHECK_EQ(generation(), 1u);
  CHECK_EQ(fake.open_count, 1);
  close_thread_detail(&detail);
  CHECK(detail.ready == 0 && detail.counters.count == 0 && detail.stack.high == 0);
  CHECK_EQ(generation(), 2u);
  CHECK_EQ(fake.open_count, 2);
  options.counters[0].config = 1;
  CHECK_EQ(generation(), 3u);
  CHECK_EQ(fake.open_count, 3);
  options.max_frames = 9;  // the counters stay
  CHECK_EQ(generation(), 3u);
  CHECK_EQ(fake.open_count, 3);
  CHECK_EQ(detail.opened_for.max_frames, 9u);
  detail.generation = 255;
  options.counters[0].config = 2;
  CHECK_EQ(generation(), 0u);  // of 256, eight bits are kept
  CHECK_EQ(detail.generation, 256u);
  close_thread_detail(&detail);
}

TEST(counters_are_opened_once_for_nested_calls) {
  fake = Fake{};
  ThreadDetail detail{};
  detail.ready = 2;  // being opened
  Words words(12, 5);
  const DetailOptions options = options_for({"cycles"});
  CHECK_EQ(encode_detail_begin(words.data(), 12, options, &detail, nullptr, &kFake), 0u);
  CHECK_EQ(fake.open_count, 0);
  CHECK(words == Words(12, 5));
  detail.ready = 0;
  open_thread_detail(&detail, options, &kFake);
  CHECK_EQ(detail.ready, 1u);
  const StackBounds mine = thread_stack_bounds();
  CHECK(detail.stack.low == mine.low && detail.stack.high == mine.high);
  close_thread_detail(&detail);
}

TEST(what_does_not_fit_is_not_written) {
  fake = Fake{};
  ThreadDetail detail{};
  DetailOptions options{};
  options.cpp_stack = true;
  options.max_frames = 128;
  const auto used = [&](size_t capacity) {
    Words words(160, 5);
    const size_t count =
        encode_detail_begin(words.data(), capacity, options, &detail, nullptr, &kFake);
    CHECK(count % 3 == 0 && count <= capacity);
    for (size_t i = count; i < words.size(); ++i) CHECK_EQ(words[i], 5u);
    return count;
  };
  CHECK_EQ(used(2), 0u);
  CHECK_EQ(used(3), 3u);  // the header, the block, one frame
  CHECK_EQ(used(5), 3u);
  CHECK_EQ(used(6), 6u);
  options.max_frames = 0;
  CHECK_EQ(used(160), 3u);
  options.counters[0] = CounterConfig{0, 0, 0};
  options.counter_count = 1;
  CHECK_EQ(used(9), 0u);  // no room for the block of the stack
  CHECK_EQ(used(12), 12u);
  options.cpp_stack = false;
  CHECK_EQ(used(8), 0u);
  CHECK_EQ(used(9), 9u);
  close_thread_detail(&detail);
}

TEST(frames_are_as_many_as_asked_for_and_padded_with_zeros) {
  ThreadDetail detail{};
  DetailOptions options{};
  options.cpp_stack = true;
  for (uint32_t most = 0; most <= 3; ++most) {
    options.max_frames = most;
    Words words(9, 5);
    const size_t used = encode_detail_begin(words.data(), 9, options, &detail);
    CHECK_EQ(used, most <= 1 ? 3u : 6u);
    CHECK_EQ(words[0], used - 1);
    CHECK_EQ(words[1], block(DetailType::cpp_stack, most, kTruncated));
    for (size_t i = 2 + most; i < used; ++i) CHECK_EQ(words[i], 0u);
    CHECK_EQ(words[used], 5u);
  }
  close_thread_detail(&detail);
}

TEST(an_end_is_written_behind_a_begin_of_its_counters_only) {
  fake = Fake{};
  ThreadDetail detail{};
  open_thread_detail(&detail, options_for({"cycles"}), &kFake);
  const uint32_t flags = kWritten | 1 << 8;
  const uint64_t begin = block(DetailType::counters_begin, 3, flags);
  const auto unchanged = [&](const Words& given) {
    Words words = given;
    words.resize(24, 5);
    const Words before = words;
    encode_detail_end(words.data(), &detail);
    return words == before;
  };
  CHECK(!unchanged({8, begin}));
  CHECK(unchanged({0, begin}));
  CHECK(unchanged({7, begin}));  // shorter than its end
  CHECK(unchanged({8, block(DetailType::cpp_stack, 3, flags)}));
  for (const uint32_t count : {0u, 1u, 2u, 4u, 7u})
    CHECK(unchanged({20, block(DetailType::counters_begin, count, flags)}));
  CHECK(unchanged({8, block(DetailType::counters_begin, 3, kWritten | 2 << 8)}));
  close_thread_detail(&detail);
  // The most counters that there are.
  open_thread_detail(&detail, options_for({"cycles", "branches", "faults", "cs"}), &kFake);
  CHECK(!unchanged({14, block(DetailType::counters_begin, 6, kWritten | 2 << 8)}));
  CHECK(unchanged({13, block(DetailType::counters_begin, 6, kWritten | 2 << 8)}));
  close_thread_detail(&detail);
}
