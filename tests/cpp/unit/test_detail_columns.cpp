// SPDX-License-Identifier: Apache-2.0
// Details of all rows as columns: what they say, and what is refused, of captures that nobody
// validated.
#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "../check.hpp"
#include "capture_builder.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/payload/blocks/detail_columns.hpp"
#include "fastprof/payload/blocks/op_flops.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"

using namespace fastprof;
using fastprof_test::CaptureBuilder;
using Words = std::vector<uint64_t>;

namespace {

uint64_t block(DetailType type, uint32_t count) {
  return detail_block_word(type, count);
}

// An op inside the engine's range, a range without details, then a row with these words.
Capture capture_with(const Words& words) {
  CaptureBuilder b;
  b.track(1, "main");
  const uint32_t engine = b.site("autograd::engine::evaluate_function: MmBackward0");
  const uint32_t op = b.site("MmBackward0");
  b.string("a.py(1): f");
  b.row(engine, 0, 100);
  b.row(op, 10, 20,
        {9, block(DetailType::op, 3), 8, 2, 1, block(DetailType::python_stack, 1), 0,
         block(DetailType::op_inputs, 1), 5, 0},
        event_flag::detail);
  b.row(op, 30, 40);
  b.row(op, 50, 60, words, event_flag::detail);
  return b.finish();
}

Words texts(Column<int32_t> codes) {
  return Words(codes.begin(), codes.end());
}

}  // namespace

TEST(details_become_columns) {
  const Capture capture =
      capture_with({5, block(DetailType::op_inputs, 1), 5, block(DetailType::op, 1), 9, 0});
  DetailColumns found(capture, {false, true});
  const Column<int64_t> sequence = found.sequence_nr.take(), forward = found.fwd_thread.take();
  CHECK(std::vector<int64_t>(sequence.begin(), sequence.end()) ==
        (std::vector<int64_t>{8, 8, -1, 9}));
  CHECK(std::vector<int64_t>(forward.begin(), forward.end()) ==
        (std::vector<int64_t>{2, 2, -1, -1}));
  CHECK(!found.node_id.exists() && !found.json.codes.exists());
  const auto none = static_cast<uint64_t>(int64_t{-1});
  CHECK(texts(found.stack.codes.take()) == (Words{none, 0, none, none}));
  CHECK(texts(found.inputs.take()) == (Words{0, 1, 0, 1}));
  CHECK_EQ(found.input_blocks.blocks().size(), size_t{1});
  CHECK(found.site_inputs == (SiteInputs{{1, 0}}));
  const std::vector<int32_t> codes = {0, 1, 0, 1};
  const Column<double> flops =
      flops_by_row(capture, codes.data(), 4, found.site_inputs, {7}, {true, false});
  const double expected[] = {0, 7, 0, 7};
  CHECK(std::equal(flops.begin(), flops.end(), std::begin(expected), std::end(expected)));
}

TEST(a_row_that_covers_others_counts_nothing) {
  Capture capture = capture_with({0});
  const std::vector<int32_t> inputs = {1, 1, 0, 0};
  const SiteInputs site_inputs = {{0, 0}, {1, 0}};
  const auto flops = [&](const std::vector<bool>& wrappers) {
    const Column<double> all =
        flops_by_row(capture, inputs.data(), 4, site_inputs, {7, 7}, wrappers);
    return std::vector<double>(all.begin(), all.end());
  };
  CHECK(flops({true, false}) == (std::vector<double>{0, 7, 0, 0}));
  CHECK(flops({false, true}) == (std::vector<double>{7, 7, 0, 0}));
  CHECK(flops({true, true}) == (std::vector<double>{7, 7, 0, 0}));
  capture.parent[1] = 1;
  CHECK_THROWS(ValueError, flops({true, false}));
  CHECK_THROWS(ValueError, flops({true}));
  const auto refused = [&](size_t size, const SiteInputs& given) {
    CHECK_THROWS(ValueError,
                 flops_by_row(capture, inputs.data(), size, given, {7}, {false, false}));
  };
  refused(3, {{0, 0}});
  refused(4, site_inputs);
  refused(4, {{2, 0}});
  refused(4, {{0, -1}});
  capture.site[3] = 2;
  refused(4, {{0, 0}});
}

TEST(details_that_are_not_there_are_refused) {
  const uint64_t far = uint64_t{0xFFFFFFFF} << 32;
  for (const Words& words :
       {Words{1}, Words{0xFFFFFFFF}, Words{1, block(DetailType::op, 4)},
        Words{2, block(DetailType::op, 4), 1}, Words{2, block(DetailType::cpp_stack, 2), 1},
        Words{2, block(DetailType::modules, 1), 1}, Words{2, block(DetailType::json, 1), far},
        Words{1, shared_block_word(0xFFFFFFFF)}, Words{1, shared_block_word(1)}}) {
    const Capture capture = capture_with(words);
    CHECK_THROWS(ValueError, DetailColumns(capture, {}));
  }
  const auto refused = [](auto&& change) {
    Capture capture = capture_with({2, block(DetailType::op, 1), 1});
    DetailColumns(capture, {});
    change(capture);
    CHECK_THROWS(ValueError, DetailColumns(capture, {}));
  };
  refused([](Capture& c) { c.site[1] = 2; });
  refused([](Capture& c) { c.payload[1] = kNoPayload; });
  refused([](Capture& c) { c.payload[3] = static_cast<uint32_t>(c.payload_words.size()); });
  refused([](Capture& c) { c.parent[1] = 3; });
  refused([](Capture& c) { c.strings.clear(); });
}

TEST(without_details_there_are_no_columns) {
  CaptureBuilder b;
  b.track(1, "main");
  const Capture empty = b.capture;
  b.row(b.site("a"), 0, 10);
  for (const Capture& capture : {empty, b.finish()}) {
    DetailColumns found(capture, {true});
    CHECK(!found.sequence_nr.exists() && !found.fwd_thread.exists() && !found.inputs.exists());
    CHECK(!found.stack.codes.exists() && found.site_inputs.empty());
  }
}

// Equal blocks have one code, in order of first use, however many there are.
TEST(codes_are_those_of_a_map) {
  std::mt19937 random(4);
  Words words;
  for (int i = 0; i < 30000; ++i) words.push_back(random() % 4);
  BlockCodes codes(words.data());
  std::map<Words, int32_t> known;
  for (int round = 0; round < 20000; ++round) {
    const uint32_t at = static_cast<uint32_t>(random()) % 29990, count = 1 + at % 9;
    const auto begin = words.begin() + at;
    const auto code = static_cast<int32_t>(known.size());
    CHECK_EQ(codes.code_of(at, count),
             known.try_emplace(Words(begin, begin + count), code).first->second);
  }
  CHECK_EQ(codes.blocks().size(), known.size());
}
