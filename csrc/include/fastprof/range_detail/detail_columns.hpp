// SPDX-License-Identifier: Apache-2.0
// DetailColumns: what the details of all rows of a capture say, as columns, found in one walk over
// its payload. Any thread; every index is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/shared_block.hpp"
#include "fastprof/capture/validate.hpp"
#include "fastprof/range_detail/block_codes.hpp"
#include "fastprof/range_detail/detail_block.hpp"
#include "fastprof/range_detail/engine_range.hpp"
#include "fastprof/range_detail/op_flops.hpp"
#include "fastprof/range_detail/sparse_column.hpp"

FASTPROF_NAMESPACE_BEGIN

// Texts of rows: codes of those that occur, numbered as they are met, -1 for none.
struct TextCodes {
  explicit TextCodes(size_t rows) : codes(rows, -1) {}

  SparseColumn<int32_t> codes;
  std::vector<uint32_t> strings;  // index into Capture::strings, by code
  std::vector<int32_t> code_of;   // by index into Capture::strings, -1: not met
};

class DetailColumns {
 public:
  // pair_sites: by site, whether its rows' (site, inputs) are numbered; shorter:
  // the others' are not. Raises ValueError naming the row whose details are cut short or refer to
  // what is not there.
  DetailColumns(const Capture& capture, const std::vector<bool>& pair_sites)
      : sequence_nr(capture.size(), -1),
        fwd_thread(capture.size(), -1),
        node_id(capture.size(), -1),
        record_function_id(capture.size(), 0),
        stack(capture.size()),
        modules(capture.size()),
        json(capture.size()),
        overload(capture.size()),
        inputs(capture.size(), 0),
        input_blocks(capture.payload_words.data()),
        capture_(capture) {
    for (const SiteInfo& site : capture.sites) {
      const size_t index = sites_.size();
      sites_.push_back({static_cast<uint32_t>(payload_words_of(site)),
                        index < pair_sites.size() && pair_sites[index],
                        is_engine_range(site.name),
                        {}});
    }
    for (row_ = 0; row_ < capture.size(); ++row_)
      if ((capture.flags[row_] & event_flag::detail) != 0) read_row();
    if (fwd_thread.exists()) sequence_nr.make();
  }

  // Numbers of ops, -1 for none. What the autograd engine puts around a backward function shows
  // that one's, as in PyTorch; without a sequence number there is no forward thread.
  SparseColumn<int64_t> sequence_nr, fwd_thread;
  SparseColumn<int32_t> node_id;
  // PyTorch's number of the RecordFunction, 0 for none: given while something asks for numbers.
  SparseColumn<int64_t> record_function_id;
  TextCodes stack, modules, json, overload;
  // 1 + the code of the row's inputs in input_blocks, 0 for none; of several the first.
  SparseColumn<int32_t> inputs;
  BlockCodes input_blocks;
  // The distinct (site, code of inputs) of rows of pair_sites.
  OpPairs pairs;

 private:
  struct SiteUse {
    uint32_t arg_words;
    bool paired;
    bool engine;
    std::vector<bool> met;  // by code of inputs
  };

  [[noreturn]] void fail(const char* what) const {
    raise<ValueError>("capture row " + std::to_string(row_) + ": " + what);
  }

  void read_row() {
    const Column<uint64_t>& words = capture_.payload_words;
    const uint32_t site = capture_.site[row_];
    if (site >= sites_.size()) fail("no such site");
    size_t at = size_t{capture_.payload[row_]} + sites_[site].arg_words;
    if (capture_.payload[row_] == kNoPayload || at >= words.size() ||
        static_cast<uint32_t>(words[at]) > words.size() - at - 1)  // DetailHeader::words
      fail("its details are cut short");
    const size_t end = at + 1 + static_cast<uint32_t>(words[at]);
    bool has_inputs = false;
    for (++at; at < end;) {
      const uint64_t word = words[at++];
      const DetailBlock block = detail_words::block_of(word);
      if (block.type == DetailType{}) return;  // padding
      if (block.count > end - at) fail("its details are cut short");
      read_block(block, at, word, site, has_inputs);
      at += block.count;
    }
  }

  void read_block(const DetailBlock& block, size_t at, uint64_t word, uint32_t site,
                  bool& has_inputs) {
    const uint64_t* const words = capture_.payload_words.data() + at;
    switch (block.type) {
      case DetailType::op:
        read_op(words, block.count);
        break;
      case DetailType::python_stack:
        if (block.count != 0) add_text(stack, words[0]);
        break;
      case DetailType::modules:
        if (block.count != 0) add_text(modules, words[0]);
        break;
      case DetailType::json:
        if (block.count != 0) add_text(json, words[0]);
        break;
      case DetailType::overload:
        if (block.count != 0) add_text(overload, words[0]);
        break;
      case DetailType::shapes:
        if (!has_inputs) add_inputs(at, block.count, site);
        has_inputs = true;
        break;
      case DetailType::shapes_at: {
        if (has_inputs) break;
        const SharedBlock shared = shared_block(capture_.payload_words, word);
        if (shared.words == nullptr) fail("its details refer to inputs that are not there");
        add_inputs(static_cast<size_t>(shared.words - capture_.payload_words.data()), shared.count,
                   site);
        has_inputs = true;
        break;
      }
      default:
        break;
    }
  }

  // Ops carry as many of (sequence number, forward thread, record function id, node) as they have.
  void read_op(const uint64_t* words, size_t count) {
    const auto sequence = count > 0 ? static_cast<int64_t>(words[0]) : -1;
    const auto forward = count > 1 ? static_cast<int64_t>(words[1]) : 0;  // thread 0: none
    const auto node = count > 3 ? static_cast<int64_t>(words[3]) : -1;
    if (sequence >= 0) sequence_nr.set(row_, sequence);
    if (node >= 0) node_id.set(row_, static_cast<int32_t>(node));
    if (count > 2 && static_cast<int64_t>(words[2]) > 0)
      record_function_id.set(row_, static_cast<int64_t>(words[2]));
    if (forward <= 0) return;
    fwd_thread.make();
    if (sequence < 0) return;
    fwd_thread.set(row_, forward);
    const int32_t parent = capture_.parent[row_];
    if (parent < 0) return;
    const auto above = static_cast<size_t>(parent);
    if (above >= row_) fail("its parent must be an earlier row");
    if (capture_.site[above] >= sites_.size() || !sites_[capture_.site[above]].engine) return;
    sequence_nr.set(above, sequence);
    fwd_thread.set(above, forward);
  }

  void add_text(TextCodes& texts, uint64_t index) {
    if (index >= capture_.strings.size()) fail("its details refer to a text that is not there");
    if (texts.code_of.empty()) texts.code_of.assign(capture_.strings.size(), -1);
    int32_t& code = texts.code_of[index];
    if (code < 0) {
      code = static_cast<int32_t>(texts.strings.size());
      texts.strings.push_back(static_cast<uint32_t>(index));
    }
    texts.codes.set(row_, code);
  }

  void add_inputs(size_t at, size_t count, uint32_t site) {
    if (at != last_at_ || last_code_ < 0) {
      last_at_ = at;
      last_code_ = input_blocks.code_of(static_cast<uint32_t>(at), static_cast<uint32_t>(count));
    }
    inputs.set(row_, last_code_ + 1);
    SiteUse& use = sites_[site];
    if (!use.paired) return;
    const auto code = static_cast<size_t>(last_code_);
    if (code >= use.met.size()) use.met.resize(code + 1);
    if (!use.met[code]) pairs.emplace_back(site, last_code_);
    use.met[code] = true;
  }

  const Capture& capture_;
  std::vector<SiteUse> sites_;
  size_t row_ = 0;
  size_t last_at_ = 0;
  int32_t last_code_ = -1;
};

FASTPROF_NAMESPACE_END
