// SPDX-License-Identifier: Apache-2.0
// The grammar of details: the blocks that for_each_block() visits, where it stops, and that all
// readers of a capture find the same blocks.
#include <map>
#include <random>
#include <vector>

#include "capture_builder.hpp"
#include "check.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/export/details.hpp"
#include "fastprof/payload/blocks/decode_detail.hpp"
#include "fastprof/payload/blocks/detail_columns.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"

using namespace fastprof;
using fastprof_test::CaptureBuilder;
using Words = std::vector<uint64_t>;

namespace {

struct Found {
  std::vector<std::pair<DetailType, Words>> blocks;
  bool whole = true;
};

Found blocks_of(const Words& words) {
  Found found;
  found.whole =
      for_each_block(words.data(), words.size(), [&](DetailBlock block, const uint64_t* contents) {
        CHECK_EQ(contents[-1], detail_block_word(block.type, block.count, block.reserved));
        CHECK(contents + block.count <= words.data() + words.size());
        found.blocks.emplace_back(block.type, Words(contents, contents + block.count));
      });
  return found;
}

// Two blocks, then padding, behind which nothing is read.
Words example() {
  return {7, detail_block_word(DetailType::op, 2, 9), 5,
          6, detail_block_word(DetailType::json, 1),  0,
          0, detail_block_word(DetailType::op, 0)};
}

}  // namespace

TEST(blocks_are_visited_up_to_the_padding) {
  const Found found = blocks_of(example());
  CHECK(found.whole);
  CHECK_EQ(found.blocks.size(), size_t{2});
  CHECK(found.blocks[0].first == DetailType::op && found.blocks[0].second == (Words{5, 6}));
  CHECK(found.blocks[1].first == DetailType::json && found.blocks[1].second == (Words{0}));
  size_t visits = 0;
  const Words words = example();
  CHECK(for_each_block(words.data(), words.size(),
                       [&](DetailBlock, const uint64_t*) { return ++visits == 0; }));
  CHECK_EQ(visits, size_t{1});
}

TEST(what_is_cut_short_is_not_visited) {
  const Words words = example();
  CHECK(!for_each_block(words.data(), 0, [](DetailBlock, const uint64_t*) { CHECK(false); }));
  for (size_t room = 1; room < words.size(); ++room)  // the header claims more than there is
    CHECK(!for_each_block(words.data(), room, [](DetailBlock, const uint64_t*) { CHECK(false); }));
  const size_t blocks[] = {0, 0, 0, 1, 1, 2, 2, 2};  // complete blocks in this many words
  for (uint64_t count = 0; count < words.size(); ++count) {
    Words cut = words;
    cut[0] = count;
    const Found found = blocks_of(cut);
    CHECK_EQ(found.blocks.size(), blocks[count]);
    CHECK_EQ(found.whole, count != 1 && count != 2 && count != 4);
  }
}

TEST(contents_may_be_rewritten) {
  Words words = example();
  for_each_block(words.data(), words.size(), [](DetailBlock block, uint64_t* contents) {
    if (is_text(block.type)) contents[0] = 77;
  });
  CHECK_EQ(words[5], uint64_t{77});
}

TEST(all_readers_of_a_capture_see_the_same_blocks) {
  // Not those whose contents refer to texts.
  constexpr DetailType types[] = {DetailType{},   DetailType::counters_begin, DetailType::cpp_stack,
                                  DetailType::op, DetailType::op_inputs,      DetailType::nothing};
  std::mt19937_64 random(11);
  const auto below = [&random](uint64_t n) { return random() % n; };
  size_t cut = 0;
  for (int round = 0; round < 3000; ++round) {
    CaptureBuilder b;
    b.track(1, "main");
    Words words(1 + below(10));
    for (uint64_t& word : words)
      word = below(2) == 0 ? below(4)
                           : detail_block_word(types[below(6)], static_cast<uint32_t>(below(4)),
                                               static_cast<uint32_t>(below(2)));
    words[0] = words.size() - 1;
    b.row(b.site("op"), 0, 10, words, event_flag::detail);
    const Capture capture = b.finish();
    const Found expected = blocks_of(words);
    size_t visits = 0;
    for_each_detail(capture, 0, [&](DetailType type, const uint64_t* contents, size_t count) {
      CHECK(visits < expected.blocks.size());
      CHECK(expected.blocks[visits] == std::make_pair(type, Words(contents, contents + count)));
      ++visits;
    });
    CHECK_EQ(visits, expected.blocks.size());
    std::map<DetailType, Words> first;
    for (const auto& [type, contents] : expected.blocks) first.try_emplace(type, contents);
    for (uint16_t number = 1; number <= 9; ++number) {
      const auto type = static_cast<DetailType>(number);
      const DetailSpan span = find_detail_block(capture, 0, type);
      CHECK_EQ(span.found, first.count(type) == 1);
      if (span.found) CHECK(Words(span.words, span.words + span.count) == first[type]);
    }
    if (expected.whole)
      DetailColumns(capture, {});
    else
      CHECK_THROWS(ValueError, DetailColumns(capture, {}));
    cut += expected.whole ? 0 : 1;
  }
  CHECK(cut > 100 && cut < 2900);
}
