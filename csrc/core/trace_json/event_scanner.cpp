// SPDX-License-Identifier: Apache-2.0
#include "core/trace_json/event_scanner.hpp"

#include <random>

#include "core/trace_json/numbers.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_json {
namespace {

constexpr size_t kMaxMembers = 48;  // repeated names are searched for in quadratic time
constexpr uint32_t kMaxKeys = 1 << 24;
// A word of args: 24 bits name, 1 bit "is an integer", 39 bits integer or text code.
constexpr int kKeyShift = 40;
constexpr uint64_t kIsInt = uint64_t{1} << 39;
constexpr int64_t kIntOffset = int64_t{1} << 38;

uint64_t random_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

std::string quoted(std::string_view text) {
  return '"' + std::string(text) + '"';
}

bool is_string(std::string_view value) noexcept {
  return !value.empty() && value[0] == '"';
}

}  // namespace

EventScanner::EventScanner(Conventions conventions)
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

Block EventScanner::scan(std::string_view data, bool after_value) {
  Block block;
  block.sparse.resize(first_state_);
  Cursor cursor{data.data(), data.data() + data.size()};
  const auto offset = [&] { return static_cast<size_t>(cursor.at - data.data()); };
  for (;;) {
    if (after_value) {
      if (!cursor.skip_space()) break;
      if (*cursor.at != ',') {
        block.stop = Stop::refused;
        break;
      }
      ++cursor.at;
    }
    if (!cursor.skip_space()) break;
    const size_t begin = offset();
    const Read read = *cursor.at == '{' ? read_event(cursor) : Read::refused;
    if (read != Read::done) {
      if (read == Read::refused) block.stop = Stop::refused;
      break;
    }
    bool is_complete = false;
    const auto rows = static_cast<uint32_t>(block.start_ns.size());
    after_value = true;
    block.consumed = offset();
    if (!add_event(block, is_complete)) {
      block.others.push_back(OtherEvent{begin, block.consumed, rows, block.events});
      // A complete event of the caller's may decide about the scope of later ones.
      if (is_complete) block.stop = Stop::other;
    }
    ++block.events;
    if (block.stop == Stop::other) break;
  }
  return block;
}

EventScanner::Span* EventScanner::field(std::string_view key, uint32_t& bit) {
  const auto found = [&bit](uint32_t at, Span& span) {
    bit = 1u << at;
    return &span;
  };
  if (key == "ph") return found(0, event_.phase);
  if (key == "ts") return found(1, event_.start);
  if (key == "id") return found(2, event_.id);
  if (key == "dur") return found(3, event_.duration);
  if (key == "pid") return found(4, event_.pid);
  if (key == "tid") return found(5, event_.tid);
  if (key == "cat") return found(6, event_.category);
  if (key == "name") return found(7, event_.name);
  return nullptr;
}

Read EventScanner::read_event(Cursor& cursor) {
  constexpr uint32_t kArgs = 1u << 8;
  event_ = Event();
  members_.clear();
  ++cursor.at;
  if (!cursor.skip_space()) return Read::more;
  if (*cursor.at == '}') {
    ++cursor.at;
    return Read::done;
  }
  for (;;) {
    bool escapes = false;
    if (*cursor.at != '"') return Read::refused;
    const char* begin = cursor.at + 1;
    Read read = cursor.skip_string(escapes);
    if (read != Read::done) return read;
    const std::string_view key(begin, static_cast<size_t>(cursor.at - 1 - begin));
    if (!cursor.skip_space()) return Read::more;
    if (*cursor.at++ != ':') return Read::refused;
    if (!cursor.skip_space()) return Read::more;
    uint32_t bit = 0;
    Span* const span = field(key, bit);
    bool value_escapes = false;
    begin = cursor.at;
    if (span != nullptr && *begin == '"') {
      read = cursor.skip_string(value_escapes);
    } else if (key == "args") {
      bit = kArgs;
      read = *begin == '{' ? read_args(cursor) : cursor.skip_value(kMaxDepth);
    } else {
      read = cursor.skip_value(kMaxDepth);
    }
    if (read != Read::done) return read;
    if (escapes || (event_.seen & bit) != 0) event_.repeats = true;
    event_.seen |= bit;
    if (span != nullptr) {
      span->text = std::string_view(begin, static_cast<size_t>(cursor.at - begin));
      span->escapes = value_escapes;
    }
    if (!cursor.skip_space()) return Read::more;
    const char c = *cursor.at++;
    if (c == '}') return Read::done;
    if (c != ',') return Read::refused;
    if (!cursor.skip_space()) return Read::more;
  }
}

Read EventScanner::read_args(Cursor& cursor) {
  members_.clear();
  ++cursor.at;
  if (!cursor.skip_space()) return Read::more;
  if (*cursor.at == '}') {
    ++cursor.at;
    return Read::done;
  }
  event_.has_args = true;
  for (;;) {
    bool escapes = false;
    if (*cursor.at != '"') return Read::refused;
    const char* begin = cursor.at + 1;
    Read read = cursor.skip_string(escapes);
    if (read != Read::done) return read;
    const std::string_view key(begin, static_cast<size_t>(cursor.at - 1 - begin));
    if (!cursor.skip_space()) return Read::more;
    if (*cursor.at++ != ':') return Read::refused;
    if (!cursor.skip_space()) return Read::more;
    begin = cursor.at;
    read = cursor.skip_value(kMaxDepth);
    if (read != Read::done) return read;
    const std::string_view value(begin, static_cast<size_t>(cursor.at - begin));
    if (escapes || members_.size() == kMaxMembers || keys_.size() >= kMaxKeys) {
      event_.repeats = true;
    } else if (!event_.repeats) {
      const uint32_t code = keys_.code_of(key);
      for (const Member& member : members_)
        if (member.key == code) event_.repeats = true;
      members_.push_back(Member{code, value});
    }
    if (!cursor.skip_space()) return Read::more;
    const char c = *cursor.at++;
    if (c == '}') return Read::done;
    if (c != ',') return Read::refused;
    if (!cursor.skip_space()) return Read::more;
  }
}

// Adds the row of event_, or returns false to leave the event to the caller.
bool EventScanner::add_event(Block& block, bool& is_complete) {
  const std::string_view phase = event_.phase.text;
  // Escapes are rare enough to be the caller's.
  if (event_.repeats || phase.size() != 3 || phase[0] != '"') {
    is_complete = true;  // it may be
    return false;
  }
  char kind = phase[1];
  is_complete = kind == 'X' || kind == '\\';
  const bool is_flow = kind == 's' || kind == 'f';
  if (kind == 'I' || kind == 'R' || kind == 'n') kind = 'i';
  if (kind != 'X' && kind != 'i' && !is_flow) return false;
  int64_t start = 0;
  int64_t duration = 0;
  int64_t ids[2] = {0, 0};
  int64_t flow = 0;
  if (!is_string(event_.name.text) || !parse_us(event_.start.text, start)) return false;
  const Span* const id_spans[2] = {&event_.pid, &event_.tid};
  for (int i = 0; i < 2; ++i)
    if (!id_spans[i]->text.empty() && !parse_int(id_spans[i]->text, ids[i])) return false;
  if (ids[0] == conventions_.other_pid) return false;
  if (is_flow && (event_.id.text.empty() || !parse_int(event_.id.text, flow))) return false;
  if (kind == 'X' && !event_.duration.text.empty() && !parse_us(event_.duration.text, duration))
    return false;
  if (duration < 0) duration = 0;
  if (!event_.category.text.empty() && !is_string(event_.category.text)) return false;
  const bool is_op = kind == 'X' && event_.category.text == op_category_;
  if (event_.category.escapes && kind == 'X') return false;
  if (event_.name.escapes && (is_op || kind == 'i')) return false;
  // The caller reads memory records, which are instants named in brackets.
  if (kind == 'i' && event_.name.text.substr(1, 1) == "[") return false;
  // Numbers given as text or of more than 18 digits are the caller's.
  for (const Member& member : members_) {
    int64_t number;
    const char c = member.value[0];
    if (member.key < first_list_ && (c == '"' || c == '-' || (c >= '0' && c <= '9')) &&
        !parse_int(member.value, number) &&
        (c == '"' || member.value.find_first_of(".eEI") == std::string_view::npos))
      return false;
  }
  const auto row = static_cast<uint32_t>(block.start_ns.size());
  ScannedSite site{};
  site.name = texts_.code_of(event_.name.text);
  site.category = texts_.code_of(event_.category.text.empty() ? "\"\"" : event_.category.text);
  site.phase = kind;
  if (!is_flow) {
    add_args(block, row, site);
  } else {
    block.args.push_back(-1);
    block.flow.rows.push_back(row);
    block.flow.values.push_back(flow);
  }
  if (is_op) site.scope = scope_of(block, row, site.name);
  const uint64_t track[2] = {static_cast<uint64_t>(ids[0]), static_cast<uint64_t>(ids[1])};
  block.start_ns.push_back(start);
  block.end_ns.push_back(start + duration);
  block.site.push_back(site_code(site));
  block.track.push_back(tracks_.code_of(track, 2));
  block.has_args.push_back(event_.has_args ? 1 : 0);
  return true;
}

void EventScanner::add_args(Block& block, uint32_t row, ScannedSite& site) {
  words_.clear();
  for (const Member& member : members_) {
    if (member.key >= first_state_ && member.key < known_keys_) {
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
    uint64_t word = static_cast<uint64_t>(member.key) << kKeyShift;
    if (is_int && number >= -kIntOffset && number < kIntOffset && member.value != "-0") {
      word |= kIsInt | static_cast<uint64_t>(number + kIntOffset);
    } else {
      const uint32_t code = texts_.code_of(member.value);
      word |= code;
      const bool is_list = member.key >= first_list_ && member.key < first_text_ && first == '[';
      const bool is_text = member.key >= first_text_ && member.key < first_state_ && first == '"';
      if (is_list || is_text) {
        block.sparse[member.key].rows.push_back(row);
        block.sparse[member.key].values.push_back(code);
      }
    }
    words_.push_back(word);
  }
  block.args.push_back(
      words_.empty() ? -1 : static_cast<int32_t>(args_.code_of(words_.data(), words_.size())));
}

OpScope EventScanner::scope_of(const Block& block, uint32_t row, uint32_t name) {
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

void EventScanner::mark_backward(uint32_t name) {
  if (name >= is_backward_.size()) is_backward_.resize(name + 1);
  is_backward_[name] = 1;
}

uint32_t EventScanner::site_code(const ScannedSite& site) {
  const uint64_t key[2] = {(static_cast<uint64_t>(site.name) << 32) | site.category,
                           (static_cast<uint64_t>(site.state) << 32) |
                               (static_cast<uint64_t>(site.scope) << 8) |
                               static_cast<unsigned char>(site.phase)};
  const uint32_t code = site_codes_.code_of(key, 2);
  if (code == sites_.size()) sites_.push_back(site);
  return code;
}

std::string EventScanner::args_text(uint32_t code) const {
  std::string json = "{";
  const uint64_t* const words = args_.words(code);
  for (size_t i = 0; i < args_.size_of(code); ++i) {
    if (i != 0) json += ", ";
    json += quoted(keys_.text(static_cast<uint32_t>(words[i] >> kKeyShift)));
    json += ": ";
    const auto payload = static_cast<int64_t>(words[i] & (kIsInt - 1));
    if ((words[i] & kIsInt) != 0)
      json += std::to_string(payload - kIntOffset);
    else
      json += texts_.text(static_cast<uint32_t>(payload));
  }
  return json += '}';
}

size_t EventScanner::bytes() const noexcept {
  return texts_.bytes() + keys_.bytes() + args_.bytes() + tracks_.bytes() + site_codes_.bytes() +
         sites_.capacity() * sizeof(ScannedSite) + is_backward_.capacity();
}

}  // namespace trace_json
FASTPROF_NAMESPACE_END
