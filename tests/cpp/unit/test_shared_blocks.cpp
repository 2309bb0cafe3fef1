// SPDX-License-Identifier: Apache-2.0
// Inputs that several rows share: kept once by a spilling session, refused when they are not
// there; inputs that never repeat are all kept.
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "../check.hpp"
#include "capture_builder.hpp"
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
using fastprof_test::CaptureBuilder;
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

Words detail_of(const Words& blocks) {
  Words words = {blocks.size()};
  words.insert(words.end(), blocks.begin(), blocks.end());
  return words;
}

Words block_of(const Words& contents) {
  Words words = {detail_block_word(DetailType::op_inputs, static_cast<uint32_t>(contents.size()))};
  words.insert(words.end(), contents.begin(), contents.end());
  return words;
}

// Three ops, of which the first two have the same inputs. shared: they are stored once, in front.
Capture three_ops(bool shared) {
  CaptureBuilder b;
  const uint32_t op = b.site("aten::op", EventKind::range, "cpu_op");
  b.track(1, "main");
  std::map<Words, uint32_t> at;
  for (const int64_t value : {7, 7, 8}) {
    Words block = block_of(input(value));
    if (shared) {
      const auto [place, fresh] =
          at.try_emplace(block, static_cast<uint32_t>(b.capture.payload_words.size()));
      if (fresh)
        b.capture.payload_words.insert(b.capture.payload_words.end(), block.begin(), block.end());
      block.assign(1, shared_block_word(place->second));
    }
    const auto start = static_cast<int64_t>(10 * b.capture.size());
    b.row(op, start, start + 5, detail_of(block), event_flag::detail);
  }
  return b.finish();
}

std::string trace_of(const Capture& capture, bool chrome) {
  std::ostringstream out;
  if (chrome)
    write_chrome_trace(capture, out);
  else
    write_perfetto_trace(capture, out);
  return out.str();
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

TEST(inputs_that_are_not_there_are_told) {
  const Capture good = three_ops(true);
  validate_capture(good);
  const size_t reference = size_t{good.payload[1]} + 1;
  const auto end = static_cast<uint32_t>(good.payload_words.size());
  for (const uint32_t at : {end, end - 1, UINT32_MAX, 1u, static_cast<uint32_t>(reference)}) {
    Capture bad = good;
    bad.payload_words[reference] = shared_block_word(at);
    CHECK(found(bad, 1).empty());
    for_each_detail(bad, 1, [](DetailType, const uint64_t*, size_t) { CHECK(false); });
    CHECK_THROWS(ValueError, validate_capture(bad));
    CHECK_THROWS(ValueError, trace_of(bad, true));
  }
  Capture bad = good;
  bad.payload_words[0] |= uint64_t{0xFFFF} << 16;  // the shared block goes on behind the words
  CHECK(found(bad, 0).empty());
  CHECK_THROWS(ValueError, summarise(bad));
  std::mt19937_64 random(5);
  for (int round = 0; round < 20000; ++round) {
    bad = good;
    for (int i = 0; i < 3; ++i)
      bad.payload_words[random() % bad.payload_words.size()] ^= uint64_t{1} << random() % 64;
    for (size_t row = 0; row < 3; ++row) {
      const DetailSpan span = find_detail_block(bad, row, DetailType::op_inputs);
      const uint64_t* const first = bad.payload_words.data();
      if (span.found)
        CHECK(span.words >= first && span.words + span.count <= first + bad.payload_words.size());
    }
    try {
      trace_of(bad, round % 2 == 0);
    } catch (const ValueError&) {
    }
    if (round > 300 && round % 20 != 0) ++round;
  }
}

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
