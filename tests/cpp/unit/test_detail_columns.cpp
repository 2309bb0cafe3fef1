// SPDX-License-Identifier: Apache-2.0
// Details of all rows as columns: what they say, and what is refused, of captures that nobody
// validated.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
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

// Sequence number, forward thread, record function id, node id: a block may end after any of them.
TEST(words_of_an_op_may_be_absent_from_any_on) {
  const auto none = static_cast<uint64_t>(int64_t{-1});
  const auto last = [](const Column<int64_t>& column) { return column.size() ? column[3] : -7; };
  struct Case {
    Words words;
    int64_t sequence, forward, function, node;
  };
  // -7: no row has a node id.
  const Case cases[] = {
      {{}, -1, -1, 0, -7},
      {{4}, 4, -1, 0, -7},
      {{0}, 0, -1, 0, -7},
      {{4, 3}, 4, 3, 0, -7},
      {{none, 3}, -1, -1, 0, -7},
      {{4, 3, 6}, 4, 3, 6, -7},
      {{4, 0, 1}, 4, -1, 1, -7},
      {{4, 3, 0, 5}, 4, 3, 0, 5},
      {{4, 3, 6, 0}, 4, 3, 6, 0},
      {{4, 3, 6, none}, 4, 3, 6, -7},
      {{none, 0, none, 2}, -1, -1, 0, 2},
  };
  for (const Case& c : cases) {
    Words words{c.words.size() + 1, block(DetailType::op, static_cast<uint32_t>(c.words.size()))};
    words.insert(words.end(), c.words.begin(), c.words.end());
    DetailColumns found(capture_with(words), {});
    CHECK_EQ(last(found.sequence_nr.take()), c.sequence);
    CHECK_EQ(last(found.fwd_thread.take()), c.forward);
    CHECK_EQ(last(found.record_function_id.take()), c.function);
    const Column<int32_t> nodes = found.node_id.take();
    CHECK_EQ(nodes.size() ? nodes[3] : -7, c.node);
  }
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

// Each kind of text has codes of its own, numbered by first use.
TEST(texts_have_codes) {
  CaptureBuilder b;
  b.track(1, "main");
  const uint32_t op = b.site("op");
  for (const char* text : {"a", "b", "c"}) b.string(text);
  const auto row = [&](uint64_t stack, uint64_t modules, uint64_t json, uint64_t overload) {
    const auto at = static_cast<int64_t>(10 * b.capture.size());
    b.row(op, at, at + 5,
          {8, block(DetailType::python_stack, 1), stack, block(DetailType::modules, 1), modules,
           block(DetailType::json, 1), json, block(DetailType::overload, 1), overload},
          event_flag::detail);
  };
  row(2, 1, 0, 1);
  row(2, 0, 2, 1);
  row(0, 1, 0, 0);
  // Blocks without words, and with more than one.
  b.row(op, 90, 95,
        {7, block(DetailType::python_stack, 0), block(DetailType::modules, 0),
         block(DetailType::json, 0), block(DetailType::overload, 0), block(DetailType::overload, 2),
         2, 7},
        event_flag::detail);
  b.row(op, 96, 98,
        {4, block(DetailType::python_stack, 0), block(DetailType::modules, 0),
         block(DetailType::json, 0), block(DetailType::overload, 0)},
        event_flag::detail);
  const auto none = static_cast<uint64_t>(int64_t{-1});
  DetailColumns found(b.finish(), {});
  using Strings = std::vector<uint32_t>;
  CHECK(texts(found.stack.codes.take()) == (Words{0, 0, 1, none, none}));
  CHECK(found.stack.strings == (Strings{2, 0}));
  CHECK(texts(found.modules.codes.take()) == (Words{0, 1, 0, none, none}));
  CHECK(found.modules.strings == (Strings{1, 0}));
  CHECK(texts(found.json.codes.take()) == (Words{0, 1, 0, none, none}));
  CHECK(found.json.strings == (Strings{0, 2}));
  CHECK(texts(found.overload.codes.take()) == (Words{0, 0, 1, 2, none}));
  CHECK(found.overload.strings == (Strings{1, 0, 2}));
}

// Of several blocks of inputs the first counts, its own or one that is shared.
TEST(the_first_inputs_of_a_row_count) {
  CaptureBuilder b;
  b.track(1, "main");
  const uint32_t first = b.site("first"), second = b.site("second"), third = b.site("third");
  const uint64_t inputs = block(DetailType::op_inputs, 1);
  b.row(first, 0, 1, {4, inputs, 5, inputs, 6}, event_flag::detail);  // its own 5 at word 1
  const uint64_t shared = shared_block_word(3);                       // the 6 of the first row
  b.row(second, 2, 3, {1, shared}, event_flag::detail);
  b.row(second, 4, 5, {3, inputs, 7, shared}, event_flag::detail);
  b.row(second, 6, 7, {3, shared, inputs, 7}, event_flag::detail);
  b.row(second, 8, 9, {2, shared, shared_block_word(1)}, event_flag::detail);
  b.row(third, 10, 11, {2, inputs, 5}, event_flag::detail);
  b.row(first, 12, 13, {2, inputs, 6}, event_flag::detail);
  const Capture capture = b.finish();
  DetailColumns found(capture, {true, true});  // of the third site no pairs are wanted
  CHECK(texts(found.inputs.take()) == (Words{1, 2, 3, 2, 2, 1, 2}));
  CHECK(found.site_inputs == (SiteInputs{{0, 0}, {1, 1}, {1, 2}, {0, 1}}));
  const std::vector<std::pair<uint32_t, uint32_t>> blocks = {{2, 1}, {4, 1}, {9, 1}};
  CHECK(found.input_blocks.blocks() == blocks);
}

TEST(numbers_reach_the_engines_range_only) {
  const auto column = [](Column<int64_t> values) {
    return std::vector<int64_t>(values.begin(), values.end());
  };
  const auto capture_of = [](const char* parent, const Words& words, bool nested) {
    CaptureBuilder b;
    b.track(1, "main");
    b.row(b.site(parent), 0, nested ? 100 : 5);
    b.row(b.site("op"), 10, 20, words, event_flag::detail);
    return b.finish();
  };
  const char* const engine = "autograd::engine::evaluate_function: Mul";
  const Words words = {3, block(DetailType::op, 2), 8, 2};
  DetailColumns inside(capture_of(engine, words, true), {});
  CHECK(column(inside.sequence_nr.take()) == (std::vector<int64_t>{8, 8}));
  CHECK(column(inside.fwd_thread.take()) == (std::vector<int64_t>{2, 2}));
  for (const bool nested : {false, true}) {
    DetailColumns other(capture_of(nested ? "autograd::engine" : engine, words, nested), {});
    CHECK(column(other.sequence_nr.take()) == (std::vector<int64_t>{-1, 8}));
    CHECK(column(other.fwd_thread.take()) == (std::vector<int64_t>{-1, 2}));
  }
  // A site that does not exist, of a row without details, is no engine's.
  Capture damaged = capture_of(engine, words, true);
  damaged.site[0] = 2;
  DetailColumns without(damaged, {});
  CHECK(column(without.sequence_nr.take()) == (std::vector<int64_t>{-1, 8}));
  // A forward thread without a sequence number: both columns exist, and are empty.
  const auto none = static_cast<uint64_t>(int64_t{-1});
  DetailColumns empty(capture_of(engine, {3, block(DetailType::op, 2), none, 2}, true), {});
  CHECK(column(empty.sequence_nr.take()) == (std::vector<int64_t>{-1, -1}));
  CHECK(column(empty.fwd_thread.take()) == (std::vector<int64_t>{-1, -1}));
}

TEST(the_engines_ranges_are_known_by_their_names) {
  CHECK(is_engine_range("autograd::engine::evaluate_function: "));
  CHECK(is_engine_range("autograd::engine::evaluate_function: MulBackward0"));
  for (const char* name :
       {"", "autograd::engine::evaluate_function:", "autograd::Engine", "aten::mul"})
    CHECK(!is_engine_range(name));
}

TEST(flops_are_of_the_pair_of_site_and_inputs) {
  CaptureBuilder b;
  b.track(1, "main");
  const uint32_t outer = b.site("outer"), inner = b.site("inner");
  b.row(outer, 0, 100);
  b.row(outer, 1, 90);
  b.row(inner, 2, 80);
  b.row(inner, 81, 85);
  b.row(inner, 91, 92);
  const Capture capture = b.finish();
  const SiteInputs pairs = {{0, 0}, {1, 2}, {1, 0}};
  const auto flops = [&](const std::vector<int32_t>& inputs, const std::vector<double>& estimates,
                         const std::vector<bool>& wrappers) {
    const Column<double> all =
        flops_by_row(capture, inputs.data(), inputs.size(), pairs, estimates, wrappers);
    return std::vector<double>(all.begin(), all.end());
  };
  using Flops = std::vector<double>;
  CHECK(flops({1, 1, 3, 1, 2}, {7, 8, 9}, {false, false}) == (Flops{7, 7, 8, 9, 0}));
  CHECK(flops({2, 0, 4, 0, -1}, {7, 8, 9}, {false, false}) == (Flops{0, 0, 0, 0, 0}));
  // Those around ops with FLOPs count nothing, from any depth.
  CHECK(flops({1, 1, 3, 1, 2}, {7, 8, 9}, {true, false}) == (Flops{0, 0, 8, 9, 0}));
  CHECK(flops({1, 1, 2, 0, 0}, {7, 8, 9}, {true, false}) == (Flops{7, 7, 0, 0, 0}));
  CHECK(flops({1, 1, 0, 0, 1}, {7, 8, 9}, {true, false}) == (Flops{0, 7, 0, 0, 9}));
  CHECK(flops({1, 1, 3, 1, 0}, {7, 0.5, 0.25}, {true, false}) == (Flops{0, 0, 0.5, 0.25, 0}));
}

TEST(a_column_takes_memory_with_its_first_value) {
  SparseColumn<int32_t> column(5, -3);
  CHECK(!column.exists());
  CHECK_EQ(column.take().size(), 0u);
  SparseColumn<int32_t> some(5, -3);
  some.set(1, 10);
  some.set(3, 30);
  some.set(1, 11);
  CHECK(some.exists());
  const Column<int32_t> values = some.take();
  const int32_t expected[] = {-3, 11, -3, 30, -3};
  CHECK(std::equal(values.begin(), values.end(), std::begin(expected), std::end(expected)));
  SparseColumn<int32_t> made(2, 4);
  made.make();
  made.make();
  const Column<int32_t> absent = made.take();
  CHECK(made.exists() && absent.size() == 2 && absent[0] == 4 && absent[1] == 4);
}

// Blocks that are equal have one code, wherever they lie.
TEST(blocks_have_codes) {
  const Words words = {7, 8, 7, 8, 9, 7};
  BlockCodes codes(words.data());
  CHECK_EQ(codes.code_of(0, 2), 0);
  CHECK_EQ(codes.code_of(2, 2), 0);
  CHECK_EQ(codes.code_of(3, 2), 1);
  CHECK_EQ(codes.code_of(5, 1), 2);
  CHECK_EQ(codes.code_of(4, 0), 3);
  CHECK_EQ(codes.code_of(2, 2), 0);
  CHECK_EQ(codes.code_of(5, 1), 2);
  const std::vector<std::pair<uint32_t, uint32_t>> blocks = {{0, 2}, {3, 2}, {5, 1}, {4, 0}};
  CHECK(codes.blocks() == blocks);
}

TEST(many_blocks_keep_their_codes) {
  constexpr uint32_t kPlaces = 20000;
  Words words(kPlaces);
  for (uint32_t i = 0; i < kPlaces; ++i) words[i] = i % 7000;
  BlockCodes codes(words.data());
  for (int pass = 0; pass < 2; ++pass)
    for (uint32_t i = 0; i < kPlaces; ++i)
      CHECK_EQ(codes.code_of(i, 1), static_cast<int32_t>(i % 7000));
  CHECK_EQ(codes.blocks().size(), size_t{7000});
  CHECK(codes.blocks()[6999] == std::make_pair(6999u, 1u));
}
