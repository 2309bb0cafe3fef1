// SPDX-License-Identifier: Apache-2.0
// Interning of trace rows: see row_store.hpp.
#include "core/trace_rows/row_store.hpp"

#include <random>
#include <utility>

#include "core/trace_rows/numbers.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_rows {
namespace {

constexpr uint32_t kMaxKeys = 1 << 24;

uint64_t random_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace

RowStore::RowStore(Conventions conventions)
    : conventions_(std::move(conventions)),
      op_category_(quoted(conventions_.op_category)),
      texts_(random_seed()),
      keys_(random_seed()),
      args_(random_seed()),
      tracks_(random_seed()),
      site_codes_(random_seed()) {
  for (const auto* names :
       {&conventions_.numbers, &conventions_.lists, &conventions_.texts, &conventions_.states})
    for (const std::string& name : *names) keys_.code_of(name);
  first_list_ = static_cast<uint32_t>(conventions_.numbers.size());
  first_text_ = first_list_ + static_cast<uint32_t>(conventions_.lists.size());
  first_state_ = first_text_ + static_cast<uint32_t>(conventions_.texts.size());
  known_keys_ = first_state_ + static_cast<uint32_t>(conventions_.states.size());
}

Block RowStore::new_block() const {
  Block block;
  block.sparse.resize(first_state_);
  return block;
}

uint32_t RowStore::key_code(std::string_view name) {
  // Args of similar events have the same names in the same order: first compare with the name that
  // last followed the previous one.
  uint32_t code = last_key_ < next_key_.size() ? next_key_[last_key_] : 0;
  if (code >= keys_.size() || keys_.text(code) != name) {
    if (keys_.size() >= kMaxKeys) return kTooManyKeys;
    code = keys_.code_of(name);
    if (last_key_ >= next_key_.size()) next_key_.resize(keys_.size());
    next_key_[last_key_] = code;
  }
  last_key_ = code;
  return code;
}

bool RowStore::are_plain(const std::vector<Member>& members) const noexcept {
  // The caller reads numbers given as text, and integers of more than 18 digits.
  for (const Member& member : members) {
    int64_t number;
    const char c = member.value[0];
    if (member.key < first_list_ && (c == '"' || c == '-' || (c >= '0' && c <= '9')) &&
        !parse_int(member.value, number) &&
        (c == '"' || member.value.find_first_of(".eEI") == std::string_view::npos))
      return false;
  }
  return true;
}

void RowStore::add_args(Block& block, const std::vector<Member>& members, ScannedSite& site,
                        bool keeps_states) {
  const auto row = static_cast<uint32_t>(block.start_ns.size());
  words_.clear();
  for (const Member& member : members) {
    if (!keeps_states && member.key >= first_state_ && member.key < known_keys_) {
      const uint32_t state = member.value == "true" ? 1 : member.value == "false" ? 2 : 3;
      site.state |= state << (2 * (member.key - first_state_));
      continue;
    }
    int64_t number = 0;
    const char first = member.value[0];
    const bool is_int = parse_int(member.value, number);
    if (is_int && member.key < first_list_) {
      block.sparse[member.key].rows.push_back(row);
      block.sparse[member.key].values.push_back(number);
    }
    if (is_int && member.value != "-0") {
      words_.push_back(ArgsWord{member.key, true, number});
      continue;
    }
    const uint32_t code = texts_.code_of(member.value);
    words_.push_back(ArgsWord{member.key, false, code});
    const bool is_list = member.key >= first_list_ && member.key < first_text_ && first == '[';
    const bool is_text = member.key >= first_text_ && member.key < first_state_ && first == '"';
    if (is_list || is_text) {
      block.sparse[member.key].rows.push_back(row);
      block.sparse[member.key].values.push_back(code);
    }
  }
  block.args.push_back(
      words_.empty() ? -1 : static_cast<int32_t>(args_.add(words_.data(), words_.size())));
}

OpScope RowStore::scope_of(const Block& block, uint32_t name) {
  const auto row = static_cast<uint32_t>(block.start_ns.size());
  const std::string_view text = texts_.text(name);
  const std::string_view prefix = conventions_.engine_prefix;
  if (text.substr(1, prefix.size()) == prefix) {
    const uint32_t function =
        texts_.code_of(quoted(text.substr(1 + prefix.size(), text.size() - 2 - prefix.size())));
    if (function >= is_backward_.size() || is_backward_[function] == 0) {
      mark_backward(function);
      backward_.push_back(function);
    }
    return OpScope::function;
  }
  if (name < is_backward_.size() && is_backward_[name] != 0) return OpScope::backward;
  const SparseColumn& forward = block.sparse[conventions_.forward_thread];
  const bool has_forward =
      !forward.rows.empty() && forward.rows.back() == row && forward.values.back() > 0;
  return has_forward ? OpScope::backward : OpScope::function;
}

void RowStore::mark_backward(uint32_t name) {
  if (name >= is_backward_.size()) is_backward_.resize(name + 1);
  is_backward_[name] = 1;
}

uint32_t RowStore::site_code(const ScannedSite& site) {
  const uint64_t key[3] = {(static_cast<uint64_t>(site.name) << 32) | site.category,
                           (static_cast<uint64_t>(site.state) << 32) |
                               (static_cast<uint64_t>(site.scope) << 8) |
                               static_cast<unsigned char>(site.phase),
                           site.place};
  const uint32_t code = site_codes_.code_of(key, 3);
  if (code == sites_.size()) sites_.push_back(site);
  return code;
}

uint32_t RowStore::track_code(int64_t pid, int64_t tid) {
  const uint64_t track[2] = {static_cast<uint64_t>(pid), static_cast<uint64_t>(tid)};
  return tracks_.code_of(track, 2);
}

std::string RowStore::args_text(uint32_t code) const {
  std::string json = "{";
  args_.for_each(code, [&](const ArgsWord& word) {
    if (json.size() > 1) json += ", ";
    json += quoted(keys_.text(word.key));
    json += ": ";
    if (word.is_int)
      json += std::to_string(word.value);
    else
      json += texts_.text(static_cast<uint32_t>(word.value));
  });
  return json += '}';
}

size_t RowStore::bytes() const noexcept {
  return texts_.bytes() + keys_.bytes() + args_.bytes() + tracks_.bytes() + site_codes_.bytes() +
         sites_.capacity() * sizeof(ScannedSite) + is_backward_.capacity() +
         next_key_.capacity() * 4;
}

}  // namespace trace_rows
FASTPROF_NAMESPACE_END
