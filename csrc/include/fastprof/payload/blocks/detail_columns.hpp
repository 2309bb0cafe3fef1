// SPDX-License-Identifier: Apache-2.0
// DetailColumns: decodes the details of all rows of a capture into columns, in one pass over its
// payload. Any thread; every index is checked.
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
#include "fastprof/capture/column.hpp"
#include "fastprof/capture/row_details.hpp"
#include "fastprof/capture/shared_block.hpp"
#include "fastprof/payload/blocks/block_codes.hpp"
#include "fastprof/payload/blocks/engine_range.hpp"
#include "fastprof/payload/blocks/op_flops.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"

FASTPROF_NAMESPACE_BEGIN

// SparseColumn: a table column that takes no memory until a row has a value.
// Allocated when the first value is set; rows without a value get `absent`. If values are set in
// row order, memory is written once, sequentially.
template <class Type>
class SparseColumn {
 public:
  SparseColumn(size_t rows, Type absent) : rows_(rows), absent_(absent) {}

  bool exists() const noexcept { return exists_; }
  void make() {
    if (exists_) return;
    values_.resize(rows_);
    exists_ = true;
  }
  void set(size_t row, Type value) {
    make();
    fill_to(row + 1);
    values_[row] = value;
  }
  // Returns the column; empty if no row has a value.
  Column<Type> take() {
    if (exists_) fill_to(rows_);
    return std::move(values_);
  }

 private:
  void fill_to(size_t end) {
    for (; filled_ < end; ++filled_) values_[filled_] = absent_;
  }

  Column<Type> values_;
  size_t rows_;
  size_t filled_ = 0;
  Type absent_;
  bool exists_ = false;
};

// Text column: a code per row, numbered by first use, -1 for none.
struct TextCodes {
  explicit TextCodes(size_t rows) : codes(rows, -1) {}

  SparseColumn<int32_t> codes;
  std::vector<uint32_t> strings;  // by code: index into Capture::strings
  std::vector<int32_t> code_of;   // by index into Capture::strings: code, -1 for none
};

// The decoded columns of one capture, which must outlive this object.
class DetailColumns {
 public:
  // pair_sites: by site, whether to collect the distinct (site, inputs) pairs of its rows; sites
  // beyond its end are not collected. Raises ValueError, naming the row, if its details are
  // truncated or refer to something that does not exist.
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

  // Columns of ops, -1 for none. A range of the autograd engine has the numbers of the backward
  // function inside it, as in PyTorch. Without a sequence number there is no forward thread.
  SparseColumn<int64_t> sequence_nr, fwd_thread;
  SparseColumn<int32_t> node_id;
  // PyTorch's id of the RecordFunction, 0 for none: assigned only while an observer needs ids.
  SparseColumn<int64_t> record_function_id;
  TextCodes stack, modules, json, overload;
  // 1 + the code of the row's inputs in input_blocks, 0 for none. The first block if there are
  // several.
  SparseColumn<int32_t> inputs;
  BlockCodes input_blocks;
  // The distinct (site, code of inputs) pairs of rows of pair_sites.
  SiteInputs site_inputs;

 private:
  struct SiteUse {
    uint32_t arg_words;
    bool paired;
    bool engine;
    std::vector<bool> collected;  // by code of inputs: whether site_inputs has the pair
  };

  // Raises ValueError, naming the row being read.
  [[noreturn]] void fail(const char* what) const {
    raise<ValueError>("capture row " + std::to_string(row_) + ": " + what);
  }

  void read_row() {
    const uint32_t site = capture_.site[row_];
    if (site >= sites_.size()) fail("invalid site index");
    if (capture_.payload[row_] == kNoPayload) fail("its details are truncated");
    const RowDetails details =
        details_at(capture_, size_t{capture_.payload[row_]} + sites_[site].arg_words);
    bool has_inputs = false;
    if (!for_each_block(details.words, details.room, [&](DetailBlock block, const uint64_t* words) {
          read_block(block, words, site, has_inputs);
        }))
      fail("its details are truncated");
  }

  void read_block(DetailBlock block, const uint64_t* words, uint32_t site, bool& has_inputs) {
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
      case DetailType::op_inputs:
        if (!has_inputs) add_inputs(words, block.count, site);
        has_inputs = true;
        break;
      case DetailType::op_inputs_ref: {
        if (has_inputs) break;
        const SharedBlock shared = shared_block(capture_.payload_words, words[-1]);
        if (shared.words == nullptr) fail("its details refer to missing inputs");
        add_inputs(shared.words, shared.count, site);
        has_inputs = true;
        break;
      }
      default:
        break;
    }
  }

  // An op block has the words sequence number, forward thread, record function id and node id;
  // trailing ones may be absent.
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
    if (index >= capture_.strings.size()) fail("its details refer to a missing text");
    if (texts.code_of.empty()) texts.code_of.assign(capture_.strings.size(), -1);
    int32_t& code = texts.code_of[index];
    if (code < 0) {
      code = static_cast<int32_t>(texts.strings.size());
      texts.strings.push_back(static_cast<uint32_t>(index));
    }
    texts.codes.set(row_, code);
  }

  void add_inputs(const uint64_t* words, size_t count, uint32_t site) {
    const auto at = static_cast<size_t>(words - capture_.payload_words.data());
    if (at != last_at_ || last_code_ < 0) {
      last_at_ = at;
      last_code_ = input_blocks.code_of(static_cast<uint32_t>(at), static_cast<uint32_t>(count));
    }
    inputs.set(row_, last_code_ + 1);
    SiteUse& use = sites_[site];
    if (!use.paired) return;
    const auto code = static_cast<size_t>(last_code_);
    if (code >= use.collected.size()) use.collected.resize(code + 1);
    if (!use.collected[code]) site_inputs.emplace_back(site, last_code_);
    use.collected[code] = true;
  }

  const Capture& capture_;
  std::vector<SiteUse> sites_;
  size_t row_ = 0;
  size_t last_at_ = 0;
  int32_t last_code_ = -1;
};

FASTPROF_NAMESPACE_END
