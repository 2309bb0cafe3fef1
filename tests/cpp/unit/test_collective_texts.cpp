// SPDX-License-Identifier: Apache-2.0
// Kernels of collectives get the metadata of the op that launched them, as in Kineto's traces.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "capture_builder.hpp"
#include "check.hpp"
#include "fastprof/payload/op_inputs/input_words.hpp"
#include "fastprof/session/collective_texts.hpp"

using namespace fastprof;

namespace {

using Keywords = std::vector<std::pair<const char*, const char*>>;

// Details with one block.
std::vector<uint64_t> details(DetailType type, const std::vector<uint64_t>& contents) {
  std::vector<uint64_t> words = {contents.size() + 1,
                                 detail_block_word(type, static_cast<uint32_t>(contents.size()))};
  words.insert(words.end(), contents.begin(), contents.end());
  return words;
}

std::vector<uint64_t> keywords(const Keywords& given) {
  std::vector<uint64_t> words(200);
  InputWords put(words.data(), 200);
  for (const auto& [name, value] : given)
    for (const char* text : {name, value}) put.put_text(text, std::strlen(text));
  const auto count = static_cast<uint32_t>(given.size());
  words.resize(InputWords::finish(words.data(), put.position(), 0, count, 0));
  return details(DetailType::op_inputs, words);
}

std::string text_of(const Capture& capture, size_t row) {
  std::string text;
  for_each_detail(capture, row, [&](DetailType type, const uint64_t* words, size_t) {
    if (type == DetailType::json) text = capture_string(capture, words[0]);
  });
  return text;
}

}  // namespace

TEST(kernels_get_the_metadata_of_the_op_that_launched_them) {
  fastprof_test::CaptureBuilder made;
  Capture& capture = made.capture;
  const uint32_t op = made.site("record_param_comms", EventKind::range, "cpu_op");
  const uint32_t other = made.site("aten::add", EventKind::range, "cpu_op");
  const uint32_t kernel = made.site("ncclDevKernel", EventKind::range, "kernel");
  const uint32_t sized =
      made.site("ncclDevKernel", EventKind::range, "kernel", {{"bytes", ArgType::int64}});
  const uint32_t copy = made.site("Memcpy", EventKind::range, "gpu_memcpy");
  made.track(1, "main");
  const auto whole = keywords({{"Collective name", "allreduce"},
                               {"In msg nelems", "8"},
                               {"Out msg nelems", "16"},
                               {"Group size", "4"},
                               {"dtype", "Float"},
                               {"Seq", "3"},
                               {"Rank", "1"}});
  // No group size: none of its five members; In split size alone: not that either.
  const auto part = keywords({{"Collective name", "send"},
                              {"In msg nelems", "8"},
                              {"Out msg nelems", "16"},
                              {"dtype", "Float"},
                              {"Dst Rank", "2"},
                              {"Src Rank", ""},
                              {"In split size", "[1]"}});
  const size_t all = made.row(op, 0, 10, whole, event_flag::detail);
  const size_t few = made.row(op, 10, 20, part, event_flag::detail);
  const size_t none = made.row(op, 20, 30);
  const size_t add = made.row(other, 30, 40, whole, event_flag::detail);
  made.track(7, "stream 7");
  const uint64_t shared = made.string("{\"grid\":[64, 1, 1]}"), empty = made.string("{}"),
                 damaged = made.string("grid");
  const auto json = [](uint64_t text) { return details(DetailType::json, {text}); };
  struct Case {
    uint32_t site;
    size_t range;
    std::vector<uint64_t> words;
    const char* text;
  };
  const std::vector<uint64_t> argument = {4096};
#define WHOLE                                                                           \
  "\"Collective name\":\"allreduce\",\"In msg nelems\":\"8\",\"Out msg nelems\":\"16\"" \
  ",\"Group size\":\"4\",\"dtype\":\"Float\",\"Seq\":\"3\""
  const std::vector<Case> cases = {
      {kernel, all, json(shared), "{\"grid\":[64, 1, 1]," WHOLE "}"},
      {kernel, all, json(shared), "{\"grid\":[64, 1, 1]," WHOLE "}"},
      {kernel, few, json(shared), "{\"grid\":[64, 1, 1],\"Dst Rank\":\"2\"}"},
      {kernel, all, json(empty), "{" WHOLE "}"},
      {kernel, all, json(damaged), "grid"},
      {kernel, all, {}, "{" WHOLE "}"},
      {sized, all, argument, "{" WHOLE "}"},
      {kernel, none, json(shared), "{\"grid\":[64, 1, 1]}"},
      {kernel, add, json(shared), "{\"grid\":[64, 1, 1]}"},
      {copy, all, json(shared), "{\"grid\":[64, 1, 1]}"},
  };
#undef WHOLE
  std::vector<size_t> rows;
  for (const Case& each : cases) {
    const bool detailed = each.words.size() > 1;
    const auto at = static_cast<int64_t>(100 + 10 * rows.size());
    rows.push_back(made.row(each.site, at, at + 5, each.words, detailed ? event_flag::detail : 0));
    capture.device_links.push_back({static_cast<uint32_t>(rows.back()), -1,
                                    static_cast<int32_t>(each.range),
                                    static_cast<uint32_t>(rows.size())});
  }
  made.finish();
  validate_capture(capture);
  const size_t strings = capture.strings.size();
  describe_collectives(capture);
  validate_capture(capture);
  for (size_t i = 0; i < rows.size(); ++i) CHECK_EQ(text_of(capture, rows[i]), cases[i].text);
  CHECK_EQ(capture.payload_words[capture.payload[rows[6]]], 4096u);  // its argument is kept
  CHECK_EQ(capture.strings.size(), strings + 4);                     // kernels share them
}
