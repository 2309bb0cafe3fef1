// SPDX-License-Identifier: Apache-2.0
// Inputs that several rows share are kept once by a spilling session; inputs that never repeat are
// all kept.
#include <map>
#include <vector>

#include "../check.hpp"
#include "fastprof/capture/shared_block.hpp"
#include "fastprof/capture/summary.hpp"
#include "fastprof/export/byte_buffer.hpp"
#include "fastprof/export/chrome_trace.hpp"
#include "fastprof/export/perfetto_trace.hpp"
#include "fastprof/fastprof.hpp"
#include "fastprof/payload/blocks/block_interner.hpp"
#include "fastprof/payload/blocks/decode_detail.hpp"
#include "fastprof/payload/op_inputs/input_words.hpp"
#include "fastprof/recorder/hot_path/detailed_range.hpp"

using namespace fastprof;
using Words = std::vector<uint64_t>;

namespace {

// The words of an op_inputs block: three integer inputs.
Words input(int64_t value) {
  Words words(8);
  InputWords put(words.data(), 8);
  for (int i = 0; i < 3; ++i) put.put_integer(value + i);
  words.resize(InputWords::finish(words.data(), put.position(), 3, 0, 3));
  return words;
}

Words found(const Capture& capture, size_t row) {
  const DetailSpan span = find_detail_block(capture, row, DetailType::op_inputs);
  return span.found ? Words(span.words, span.words + span.count) : Words();
}

Words block_of(const Words& contents) {
  Words words = {detail_block_word(DetailType::op_inputs, static_cast<uint32_t>(contents.size()))};
  words.insert(words.end(), contents.begin(), contents.end());
  return words;
}

const char* const kNoNames[] = {nullptr};
Site site_named(const char* name) {
  Site site{};
  site.mask = category::user;
  site.kind = SiteKind::range;
  site.name = name;
  site.category_name = "cpu_op";
  site.arg_names = kNoNames;
  return site;
}
const Site kOp = site_named("op");

// Records ops with these inputs; an own block before and one behind, as ops have. Returns how many
// found room.
size_t record(const std::vector<int64_t>& values) {
  size_t recorded = 0;
  for (const int64_t value : values) {
    Words blocks = {detail_block_word(DetailType::op, 1), static_cast<uint64_t>(value)};
    const Words block = block_of(input(value % 5));
    blocks.insert(blocks.end(), block.begin(), block.end());
    blocks.insert(blocks.end(), {detail_block_word(DetailType::nothing, 1), uint64_t{99}});
    const OpenRange open = begin_detailed(state(), thread_block(), &kOp, nullptr, blocks.data(),
                                          static_cast<uint32_t>(blocks.size()));
    if (open.slot == nullptr) continue;
    ++recorded;
    end_range(RangeHandle{open.slot, open.begin, &kOp, thread_block()->track->id});
  }
  return recorded;
}

std::vector<int64_t> numbers(int64_t first, int64_t count) {
  std::vector<int64_t> all;
  for (int64_t i = first; i < first + count; ++i) all.push_back(i);
  return all;
}

// Every op has its own sequence number and the inputs it was recorded with; each of the five
// distinct blocks is there once.
void check_recorded(const Capture& capture, size_t ops) {
  validate_capture(capture);
  size_t seen = 0;
  std::map<const uint64_t*, size_t> places;
  for (size_t row = 0; row < capture.size(); ++row) {
    if (capture.sites[capture.site[row]].name != "op") continue;
    ++seen;
    const DetailSpan op = find_detail_block(capture, row, DetailType::op);
    CHECK(op.found && op.count == 1);
    CHECK(found(capture, row) == input(static_cast<int64_t>(op.words[0]) % 5));
    const DetailSpan behind = find_detail_block(capture, row, DetailType::nothing);
    CHECK(behind.found && behind.words[0] == 99);
    ++places[find_detail_block(capture, row, DetailType::op_inputs).words];
  }
  CHECK_EQ(seen, ops);
  CHECK_EQ(places.size(), size_t{5});
  // Each block once; of each op the header, its number, the reference and what is behind.
  CHECK_EQ(capture.payload_words.size(), 5 * block_of(input(0)).size() + ops * 6);
}

}  // namespace

TEST(what_was_spilled_is_shared_too) {
  SessionOptions options;
  options.overflow = OverflowPolicy::spill_to_file;
  options.max_bytes = 1 << 20;
  Session session(options);
  session.start();
  // At the bound the recording thread waits for the file.
  for (int64_t i = 0; i < 15; ++i) CHECK_EQ(record(numbers(2000 * i, 2000)), size_t{2000});
  static_assert(30000 * sizeof(Slot) * 3 > 1 << 20, "more than fits into memory");
  check_recorded(session.stop(), 30000);
}

TEST(inputs_that_never_repeat_are_all_there) {
  Session session;
  session.start();
  for (int64_t i = 0; i < 5000; ++i) {
    const Words block = block_of(input(i));
    const OpenRange open = begin_detailed(state(), thread_block(), &kOp, nullptr, block.data(),
                                          static_cast<uint32_t>(block.size()));
    end_range(RangeHandle{open.slot, open.begin, &kOp, thread_block()->track->id});
  }
  const Capture& capture = session.stop();
  CHECK_EQ(capture.size(), size_t{5000});
  for (size_t row = 0; row < capture.size(); ++row)
    CHECK(found(capture, row) == input(static_cast<int64_t>(row)));
}
