// SPDX-License-Identifier: Apache-2.0
// describe_collectives: gives the kernels of collectives (NCCL) the metadata of the op that
// launched them, "record_param_comms": name, group, ranks, message sizes, ..., as Kineto does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/export/details.hpp"
#include "fastprof/export/op_inputs_text.hpp"
#include "fastprof/payload/blocks/detail_block.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace assembling {

// Writes the members of a kernel's arguments. Names, order and conditions are those of Kineto
// (appendCollectiveArgs of libkineto's JSON writer).
class CollectiveMembers {
 public:
  explicit CollectiveMembers(const OpInputTexts& op) : op_(op) {
    add_all({"Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype"});
    add_each({"Input Tensors start", "Output Tensors start"});
    add_all({"In split size", "Out split size"});
    add_each({"Process Group Name", "Process Group Description", "Process Group Ranks", "Dst Rank",
              "Src Rank", "Seq", "Comms Id"});
  }
  // `,"name":value` for each.
  const std::string& text() const { return text_; }

 private:
  using Names = std::initializer_list<const char*>;

  // The JSON text of a member; null if it is missing or empty.
  const std::string* value_of(const char* name) const {
    for (const auto& [key, value] : op_.keywords)
      if (key == name) return value.empty() || value == "\"\"" ? nullptr : &value;
    return nullptr;
  }
  void add_each(Names names) {
    for (const char* name : names)
      if (const std::string* const value = value_of(name))
        text_ += std::string(",\"") + name + "\":" + *value;
  }
  // Adds all or none.
  void add_all(Names names) {
    for (const char* name : names)
      if (value_of(name) == nullptr) return;
    add_each(names);
  }

  const OpInputTexts& op_;
  std::string text_;
};

class CollectiveTexts {
 public:
  explicit CollectiveTexts(Capture& capture) : capture_(capture) {}

  void run() {
    for (const SiteInfo& site : capture_.sites) {
      is_kernel_.push_back(site.category == "kernel");
      is_collective_.push_back(site.name == "record_param_comms");
    }
    if (std::find(is_collective_.begin(), is_collective_.end(), true) == is_collective_.end())
      return;
    for (const DeviceLink& link : capture_.device_links) {
      if (link.range < 0 || !is_kernel_[capture_.site[link.row]] ||
          !is_collective_[capture_.site[static_cast<size_t>(link.range)]])
        continue;
      const std::string& members = members_of(static_cast<uint32_t>(link.range));
      if (!members.empty()) describe(link.row, members);
    }
  }

 private:
  const std::string& members_of(uint32_t op) {
    const auto found = members_.try_emplace(op);
    std::string& text = found.first->second;
    if (found.second)
      for_each_detail(capture_, op, [&](DetailType type, const uint64_t* words, size_t count) {
        if (type == DetailType::op_inputs)
          text = CollectiveMembers(op_input_texts(words, count)).text();
      });
    return text;
  }

  // Appends members to the JSON text of a kernel, which other kernels may share. One without a text
  // gets one, behind a copy of its arguments.
  void describe(uint32_t row, const std::string& members) {
    Column<uint64_t>& words = capture_.payload_words;
    size_t text_at = 0;
    for_each_detail(capture_, row, [&](DetailType type, const uint64_t* block, size_t count) {
      if (type == DetailType::json && count > 0)
        text_at = static_cast<size_t>(block - words.data());
    });
    const uint64_t before = text_at != 0 ? words[text_at] : ~uint64_t{0};
    const std::string own = text_at != 0 ? std::string(capture_string(capture_, before)) : "{}";
    if (own.size() < 2 || own.front() != '{' || own.back() != '}') return;
    const auto [at, fresh] = texts_.try_emplace({before, members}, capture_.strings.size());
    if (fresh)
      capture_.strings.push_back(own.size() == 2 ? "{" + members.substr(1) + "}"
                                                 : own.substr(0, own.size() - 1) + members + "}");
    if (text_at == 0) text_at = append_detail(row);
    words[text_at] = at->second;
  }

  // Returns the position of the new text's index.
  size_t append_detail(uint32_t row) {
    Column<uint64_t>& words = capture_.payload_words;
    const size_t count = capture_.sites[capture_.site[row]].arg_types.size();
    const size_t old = capture_.payload[row], first = words.size();
    for (size_t i = 0; i < count; ++i) words.push_back(uint64_t{words[old + i]});
    words.push_back(2);  // DetailHeader: two words follow
    words.push_back(detail_block_word(DetailType::json, 1));
    words.push_back(0);
    capture_.payload[row] = static_cast<uint32_t>(first);
    capture_.flags[row] |= event_flag::detail;
    return words.size() - 1;
  }

  Capture& capture_;
  std::vector<bool> is_kernel_, is_collective_;                 // by site
  std::map<uint32_t, std::string> members_;                     // by row of the op
  std::map<std::pair<uint64_t, std::string>, uint64_t> texts_;  // -> index in strings
};

}  // namespace assembling

// Requires device_links and complete payloads.
inline void describe_collectives(Capture& capture) {
  assembling::CollectiveTexts(capture).run();
}

FASTPROF_NAMESPACE_END
