// SPDX-License-Identifier: Apache-2.0
// Reads the common events of Chrome traces: see event_scanner.hpp.
#include "core/trace_json/event_scanner.hpp"

#include "core/trace_rows/numbers.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_json {

using trace_rows::OtherEvent;
using trace_rows::parse_int;
using trace_rows::parse_us;
using trace_rows::parse_word;
using trace_rows::ScannedSite;
using trace_rows::Stop;

namespace {

constexpr size_t kMaxMembers = 48;  // repeated names are searched for in quadratic time

bool is_string(std::string_view value) noexcept {
  return !value.empty() && value[0] == '"';
}

// Names of MemoryArg.
constexpr const char* kMemoryArgNames[] = {
    "Addr", "Bytes", "Total Allocated", "Total Reserved", "Device Type", "Device Id", "Allocator"};

}  // namespace

EventScanner::EventScanner(trace_rows::Conventions conventions) : store_(std::move(conventions)) {
  for (size_t i = 0; i < kMemoryArgs; ++i) memory_keys_[i] = store_.key_code(kMemoryArgNames[i]);
}

Block EventScanner::scan(std::string_view data, bool after_value) {
  Block block = store_.new_block();
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
      // A complete event that the caller reads may determine the scope of later ones.
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
  switch (key.size()) {
    case 2:
      if (key == "ph") return found(0, event_.phase);
      if (key == "ts") return found(1, event_.start);
      if (key == "id") return found(2, event_.id);
      if (key == "sf") event_.has_stack = true;
      break;
    case 3:
      if (key == "dur") return found(3, event_.duration);
      if (key == "pid") return found(4, event_.pid);
      if (key == "tid") return found(5, event_.tid);
      if (key == "cat") return found(6, event_.category);
      break;
    case 4:
      if (key == "name") return found(7, event_.name);
      break;
    case 5:
      if (key == "stack") event_.has_stack = true;
      break;
    default:
      break;
  }
  return nullptr;
}

Read EventScanner::read_event(Cursor& cursor) {
  constexpr uint32_t kArgs = 1u << 8;
  event_ = Event();
  members_.clear();
  return read_object(cursor, [&](std::string_view key, bool escapes) {
    uint32_t bit = 0;
    Span* const span = field(key, bit);
    bool value_escapes = false;
    const char* const begin = cursor.at;
    Read read = Read::done;
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
    return Read::done;
  });
}

Read EventScanner::read_args(Cursor& cursor) {
  members_.clear();
  return read_members(cursor, [this](std::string_view key, bool escapes, std::string_view value) {
    if (escapes || members_.size() == kMaxMembers) event_.repeats = true;
    if (event_.repeats) return;
    const uint32_t code = store_.key_code(key);
    if (code == trace_rows::RowStore::kTooManyKeys) event_.repeats = true;
    for (const Member& member : members_)
      if (member.key == code) event_.repeats = true;
    members_.push_back(Member{code, value});
  });
}

bool EventScanner::add_memory(Block& block, uint32_t row, ScannedSite& site) {
  int64_t words[kMemoryWords] = {};
  int64_t device[2] = {0, -1};  // type and index of records without them
  std::string_view name;
  bool has_size = false;
  for (const Member& member : members_) {
    size_t arg = 0;
    while (arg < kMemoryArgs && memory_keys_[arg] != member.key) ++arg;
    if (arg < kMemoryWords) {
      has_size = has_size || arg == bytes;
      if (!parse_word(member.value, words[arg])) return false;
    } else if (arg == allocator) {
      name = member.value;
      if (!is_string(name) || name.find('\\') != std::string_view::npos) return false;
    } else if (arg != kMemoryArgs) {
      int64_t& number = device[arg - device_type];
      if (!parse_int(member.value, number) || number != static_cast<int16_t>(number)) return false;
    }
  }
  if (!has_size) return false;
  site.state = static_cast<uint32_t>(static_cast<uint16_t>(device[0])) << 16 |
               static_cast<uint16_t>(device[1]);
  site.place = name.empty() ? 0 : store_.text_code(name) + 1;
  for (const int64_t word : words) {
    block.flow.rows.push_back(row);
    block.flow.values.push_back(word);
  }
  return true;
}

// Adds the row of event_. Returns false if the caller must read the event.
bool EventScanner::add_event(Block& block, bool& is_complete) {
  const std::string_view phase = event_.phase.text;
  // Escapes in these members are rare and left to the caller.
  if (event_.repeats || phase.size() != 3 || phase[0] != '"') {
    is_complete = true;  // it may be
    return false;
  }
  char kind = phase[1];
  is_complete = kind == 'X' || kind == '\\';
  if (event_.has_stack) {
    is_complete = is_complete && store_.is_op(event_.category.text);
    return false;
  }
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
  if (ids[0] == store_.conventions().other_pid) return false;
  if (is_flow && (event_.id.text.empty() || !parse_int(event_.id.text, flow))) return false;
  if (kind == 'X' && !event_.duration.text.empty() && !parse_us(event_.duration.text, duration))
    return false;
  if (duration < 0) return false;
  if (!event_.category.text.empty() && !is_string(event_.category.text)) return false;
  const bool is_op = kind == 'X' && store_.is_op(event_.category.text);
  if (event_.category.escapes && kind == 'X') return false;
  if (event_.name.escapes && (is_op || kind == 'i')) return false;
  const bool is_memory = kind == 'i' && event_.name.text == "\"[memory]\"";
  if (kind == 'i' && event_.name.text == "\"[OutOfMemory]\"") return false;
  if (!is_memory && !store_.are_plain(members_)) return false;
  const auto row = static_cast<uint32_t>(block.start_ns.size());
  ScannedSite site{};
  site.name = store_.text_code(event_.name.text);
  site.category = store_.text_code(event_.category.text.empty() ? "\"\"" : event_.category.text);
  site.phase = is_memory ? 'm' : kind;
  if (is_memory) {
    if (!add_memory(block, row, site)) return false;
    block.args.push_back(-1);
  } else if (!is_flow) {
    store_.add_args(block, members_, site);
  } else {
    block.args.push_back(-1);
    block.flow.rows.push_back(row);
    block.flow.values.push_back(flow);
  }
  if (is_op) site.scope = store_.scope_of(block, site.name);
  block.start_ns.push_back(start);
  block.end_ns.push_back(start + duration);
  block.site.push_back(store_.site_code(site));
  block.track.push_back(store_.track_code(ids[0], ids[1]));
  return true;
}

}  // namespace trace_json
FASTPROF_NAMESPACE_END
