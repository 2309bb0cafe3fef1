// SPDX-License-Identifier: Apache-2.0
// The native readers of traces on damaged input: JSON events and Perfetto's packets, mutated by
// bits, by tokens and by structure. Whatever the input, the blocks are consistent, and every code
// leads to valid JSON. Run it with sanitizers; FASTPROF_FUZZ_INPUTS sets the number of inputs of
// each reader.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"
#include "core/sqlite_pages/table_scan.hpp"
#include "core/trace_json/event_scanner.hpp"
#include "core/trace_proto/packet_scanner.hpp"

namespace {

using namespace fastprof;
using trace_rows::Block;
using trace_rows::RowStore;
using Random = std::mt19937_64;

size_t input_count() {
  const char* const given = std::getenv("FASTPROF_FUZZ_INPUTS");
  return given == nullptr ? 4000 : std::strtoull(given, nullptr, 10);
}

size_t below(Random& random, size_t limit) {
  return static_cast<size_t>(random() % limit);
}

template <class Items>
auto& pick(Random& random, Items& items) {
  return items[below(random, std::size(items))];
}

trace_rows::Conventions conventions() {
  trace_rows::Conventions found;
  found.numbers = {"Sequence number", "Fwd thread id", "External id"};
  found.lists = {"Input Dims"};
  found.texts = {"Call stack"};
  found.states = {"finished", "is_async"};
  found.engine_prefix = "engine: ";
  found.op_category = "cpu_op";
  found.forward_thread = 1;
  found.other_pid = 77;
  return found;
}

bool is_json(std::string_view text) {
  // A number ends only with the byte behind it.
  const std::string padded = std::string(text) + " ";
  trace_json::Cursor cursor{padded.data(), padded.data() + padded.size()};
  return !text.empty() && cursor.skip_value(400) == trace_json::Read::done &&
         cursor.at == padded.data() + text.size();
}

void check_block(const Block& block, const RowStore& store, size_t size) {
  const size_t rows = block.start_ns.size();
  CHECK(block.consumed <= size);
  CHECK_EQ(block.end_ns.size(), rows);
  CHECK_EQ(block.site.size(), rows);
  CHECK_EQ(block.track.size(), rows);
  CHECK_EQ(block.args.size(), rows);
  CHECK(rows <= block.events);
  for (size_t row = 0; row < rows; ++row) {
    CHECK(block.start_ns[row] <= block.end_ns[row]);
    CHECK(block.site[row] < store.sites().size());
    CHECK(block.args[row] >= -1);
    if (block.args[row] < 0) continue;
    CHECK(static_cast<size_t>(block.args[row]) < store.args());
    CHECK(is_json(store.args_text(static_cast<uint32_t>(block.args[row]))));
  }
  for (const auto& column : block.sparse) {
    CHECK_EQ(column.rows.size(), column.values.size());
    for (size_t i = 0; i < column.rows.size(); ++i) {
      CHECK(column.rows[i] < rows);
      if (i > 0) CHECK(column.rows[i - 1] < column.rows[i]);
    }
  }
  for (size_t list = 3; list < 5; ++list)
    for (const int64_t code : block.sparse[list].values)
      CHECK(is_json(store.text(static_cast<uint32_t>(code))));
  for (const auto& other : block.others) CHECK(other.begin < other.end && other.end <= size);
}

// ---- JSON
// ------------------------------------------------------------------------------------------------------

// clang-format off
constexpr std::array<std::string_view, 36> kTokens = {
    "0", "-0", "1", "-3.5", "1e400", "NaN", "-Infinity", "123456789012345678901",
    "9007199254740.993", "1e-7", "\"a\"", "\"\"", "\"\\u0041\"", "\"\\ud800\"", "\"\xc3\xa9\"",
    "\"[memory]\"", "\"engine: a\"", "\"cpu_op\"", "true", "null", "[]", "{}", "[[1,2],[]]",
    "{\"a\":[1]}", ",", "}", "]", "{", "[", ":", "\"", "\\", "\xff", "\xed\xa0\x80", "\xf0\x9f",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["};
constexpr std::array<std::string_view, 14> kKeys = {
    "External id", "Sequence number", "Fwd thread id", "Input Dims", "Call stack", "finished",
    "is_async", "odd", "\\u0041", "name", "ts", "ph", "args", ""};
// clang-format on

constexpr size_t kValidTokens = 24;

// Mostly valid JSON.
std::string_view any_token(Random& random) {
  return kTokens[below(random, below(random, 30) != 0 ? kValidTokens : kTokens.size())];
}

std::string json_event(Random& random) {
  std::string text = "{\"ph\":\"";
  text += "XXXXXXinsfBEM"[below(random, 13)];
  text += "\",\"cat\":";
  text += below(random, 3) == 0 ? "\"cpu_op\"" : "\"kernel\"";
  text += ",\"name\":\"n" + std::to_string(below(random, 5)) +
          "\",\"pid\":1,\"tid\":" + std::to_string(below(random, 3)) +
          ",\"ts\":" + std::to_string(below(random, 1000000)) + "." +
          std::to_string(below(random, 1000)) + ",\"dur\":" + std::to_string(below(random, 90)) +
          ",\"id\":4,\"args\":{";
  for (size_t i = below(random, 5); i > 0; --i) {
    text += '"';
    text += pick(random, kKeys);
    text += "\":";
    text += below(random, 2) == 0 ? std::string_view("12") : any_token(random);
    if (i > 1) text += ',';
  }
  return text + "}}";
}

void mutate_json(Random& random, std::string& text) {
  for (size_t i = below(random, 4); i > 0; --i) {
    const size_t at = below(random, text.size());
    const size_t removed = below(random, 3) == 0 ? below(random, 30) : below(random, 2);
    const size_t kind = below(random, 4);
    if (kind == 0) {
      text[at] = static_cast<char>(random());
    } else if (kind == 1) {
      text[at] = static_cast<char>(text[at] ^ (1 << below(random, 8)));
    } else {
      text.replace(at, removed, pick(random, kTokens));
    }
    if (text.empty()) text = "{";
  }
}

TEST(events_of_damaged_json) {
  Random random(1);
  size_t rows = 0;
  for (size_t input = 0; input < input_count(); ++input) {
    trace_json::EventScanner scanner(conventions());
    std::string text;
    for (size_t i = 1 + below(random, 5); i > 0; --i)
      text += json_event(random) + (i > 1 ? "," : "");
    mutate_json(random, text);
    text += ']';
    // The buffer ends anywhere: what is read must not depend on it.
    size_t end = below(random, 2) == 0 ? text.size() : below(random, text.size() + 1);
    size_t at = 0;
    bool after_value = false;
    for (int part = 0; part < 50; ++part) {
      // A copy without a byte behind it, so that sanitizers see reads past the end.
      const std::vector<char> data(text.begin() + static_cast<ptrdiff_t>(at),
                                   text.begin() + static_cast<ptrdiff_t>(end));
      const Block block = scanner.scan(std::string_view(data.data(), data.size()), after_value);
      check_block(block, scanner.store(), data.size());
      rows += block.start_ns.size();
      at += block.consumed;
      after_value = after_value || block.events > 0;
      if (block.stop == trace_rows::Stop::refused) break;
      if (block.stop == trace_rows::Stop::more) {
        if (end == text.size()) break;
        end += 1 + below(random, text.size() - end);
      }
    }
  }
  CHECK(rows > input_count() / 2);
}

// ---- Perfetto
// --------------------------------------------------------------------------------------------------

void varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void number(std::string& out, uint32_t field, uint64_t value) {
  varint(out, uint64_t{field} << 3);
  varint(out, value);
}
void bytes(std::string& out, uint32_t field, std::string_view value) {
  varint(out, (uint64_t{field} << 3) | 2);
  varint(out, value.size());
  out += value;
}
void fixed64(std::string& out, uint32_t field, uint64_t value) {
  varint(out, (uint64_t{field} << 3) | 1);
  for (int i = 0; i < 8; ++i) out += static_cast<char>(value >> (8 * i));
}

constexpr std::array<uint64_t, 12> kNumbers = {0,   1,   2,          5,          64,         127,
                                               128, 300, 0x7FFFFFFF, 0xFFFFFFFF, 1ull << 63, ~0ull};

uint64_t any_number(Random& random) {
  return below(random, 12) != 0 ? 1 + below(random, 3) : pick(random, kNumbers);
}

std::string annotation(Random& random, int depth) {
  std::string out;
  if (below(random, 2) == 0)
    bytes(out, 10, pick(random, kKeys));
  else
    number(out, 1, any_number(random));
  switch (below(random, depth > 0 ? 11 : 8)) {
    case 0:
      number(out, 2, any_number(random));
      break;
    case 1:
      number(out, 3, random());
      break;
    case 2:
      number(out, 4, random());
      break;
    case 3:
      fixed64(out, 5, below(random, 2) == 0 ? random() : 0x7FF8000000000001u);
      break;
    case 4:
      bytes(out, 6, any_token(random));
      break;
    case 5:
      number(out, 7, random());
      break;
    case 6:
      number(out, 17, any_number(random));
      break;
    case 7:
      bytes(out, 9, "[1]");
      break;
    default: {
      const uint32_t field = below(random, 2) == 0 ? 11 : 12;
      for (size_t i = below(random, 4); i > 0; --i)
        bytes(out, field, annotation(random, depth - 1));
    }
  }
  return out;
}

std::string track_event(Random& random) {
  std::string out;
  if (below(random, 20) != 0) number(out, 9, below(random, 9) == 0 ? 4 : 1 + below(random, 3));
  if (below(random, 2) == 0) number(out, 11, any_number(random));
  if (below(random, 2) == 0)
    number(out, 10, any_number(random));
  else if (below(random, 3) != 0)
    bytes(out, 23, any_token(random));
  for (size_t i = below(random, 3); i > 0; --i) {
    if (below(random, 2) == 0)
      number(out, 3, any_number(random));
    else
      bytes(out, 22, below(random, 2) == 0 ? std::string_view("cpu_op") : any_token(random));
  }
  for (size_t i = below(random, 4); i > 0; --i)
    bytes(out, 4, annotation(random, below(random, 30) == 0 ? 20 : 2));
  if (below(random, 6) == 0) fixed64(out, below(random, 2) == 0 ? 47 : 48, random());
  if (below(random, 25) == 0) number(out, 30, random());
  if (below(random, 9) == 0) number(out, 34, any_number(random));
  if (below(random, 30) == 0) fixed64(out, 44, random());
  if (below(random, 40) == 0) number(out, static_cast<uint32_t>(1 + below(random, 100)), random());
  return out;
}

std::string packet(Random& random) {
  std::string out;
  number(out, 8, below(random, 9) == 0 ? random() : 1000 + below(random, 5000));
  number(out, 10, 1 + below(random, below(random, 9) == 0 ? 3 : 2));
  bytes(out, 11, track_event(random));
  if (below(random, 3) == 0) number(out, 13, below(random, 12) == 0 ? 1 : 2);
  if (below(random, 9) == 0) number(out, 58, any_number(random));
  std::string framed;
  bytes(framed, 1, out);
  return framed;
}

void mutate_packets(Random& random, std::string& data) {
  for (size_t i = below(random, 4); i > 0 && !data.empty(); --i) {
    const size_t at = below(random, data.size());
    switch (below(random, 4)) {
      case 0:
        data[at] = static_cast<char>(random());
        break;
      case 1:
        data[at] = static_cast<char>(data[at] ^ (1 << below(random, 8)));
        break;
      case 2:
        data.erase(at, below(random, 12));
        break;
      default:
        data.insert(at, data.substr(below(random, data.size()), below(random, 40)));
        break;
    }
  }
}

void set_state(Random& random, trace_proto::PacketScanner& scanner) {
  using trace_proto::Place;
  using trace_proto::TextKind;
  for (uint64_t id = 1; id < 3; ++id) {
    trace_proto::SequenceState& state = scanner.sequence(id);
    state.is_valid = below(random, 4) != 0;
    state.clock = below(random, 9) == 0 ? pick(random, kNumbers) : 64 * (id & 1);
    state.track_uuid = below(random, 3);
    state.place = Place{3, 3, below(random, 2) == 0};
    state.locations[2] = 1;
    for (uint64_t iid = 1; iid < 4; ++iid)
      for (int kind = 0; kind < trace_proto::kTextKinds; ++kind)
        if (below(random, 9) != 0)
          scanner.intern(id, static_cast<TextKind>(kind), iid, any_token(random));
  }
  for (uint32_t uuid = 1; uuid < 4; ++uuid) scanner.set_place(uuid, Place{uuid, uuid, true});
  if (below(random, 2) == 0) scanner.set_counter(2, pick(random, kTokens), 2);
  for (const uint64_t key :
       {uint64_t{0}, uint64_t{64} | (uint64_t{1} << 32), uint64_t{1}, uint64_t{5}})
    scanner.set_clock(
        key, trace_proto::ClockState{
                 static_cast<int64_t>(1 + below(random, 2) * 1000), below(random, 3) == 0,
                 static_cast<int64_t>(below(random, 9) == 0 ? random() >> 2 : 7), INT64_MIN,
                 below(random, 4) != 0 ? INT64_MAX : 3000,
                 static_cast<int64_t>(below(random, 9) == 0 ? random() >> 1 : 40)});
  if (below(random, 2) == 0) scanner.set_own();
}

TEST(packets_of_damaged_perfetto_traces) {
  Random random(2);
  size_t rows = 0;
  size_t closed = 0;
  for (size_t input = 0; input < input_count(); ++input) {
    trace_proto::PacketScanner scanner(conventions(), below(random, 4) == 0);
    set_state(random, scanner);
    std::string text;
    for (size_t i = 1 + below(random, 12); i > 0; --i) text += packet(random);
    mutate_packets(random, text);
    size_t at = 0;
    uint32_t row = 0;
    for (int part = 0; part < 50 && at < text.size(); ++part) {
      const size_t end =
          below(random, 3) == 0 ? at + below(random, text.size() - at + 1) : text.size();
      const std::vector<char> data(text.begin() + static_cast<ptrdiff_t>(at),
                                   text.begin() + static_cast<ptrdiff_t>(end));
      trace_proto::PacketBlock block =
          scanner.scan(std::string_view(data.data(), data.size()), row, 1 << 16);
      check_block(block, scanner.store(), data.size());
      CHECK_EQ(block.links.rows.size(), block.links.ids.size());
      CHECK_EQ(block.links.rows.size(), block.links.steps.size());
      row += static_cast<uint32_t>(block.start_ns.size());
      for (const uint32_t linked : block.links.rows) CHECK(linked < row);
      at += block.consumed;
      if (block.stop == trace_rows::Stop::refused) break;
      if (block.consumed == 0 && end == text.size()) break;
    }
    scanner.stacks().finish(5000);
    const trace_proto::Closings& closings = scanner.stacks().closings();
    for (const uint32_t found : closings.rows) CHECK(found < row);
    rows += row;
    closed += closings.rows.size();
  }
  CHECK(rows > input_count() / 4);
  CHECK(closed > input_count() / 8);
}

// ---- SQLite
// ----------------------------------------------------------------------------------------------------

constexpr size_t kPage = 512;

void big_endian(std::string& page, size_t at, size_t size, uint64_t value) {
  for (size_t i = 0; i < size; ++i) page[at + i] = static_cast<char>(value >> (8 * (size - 1 - i)));
}

// A leaf page of records (integer of 1 byte, text of 3, NULL, integer of 8), or an interior page
// whose children are the pages given.
std::string sqlite_page(Random& random, const std::vector<uint32_t>& children) {
  std::string page(kPage, '\0');
  const bool is_leaf = children.empty();
  const size_t header = is_leaf ? 8 : 12;
  const size_t cells = is_leaf ? 1 + below(random, 12) : children.size() - 1;
  size_t top = kPage;
  for (size_t i = 0; i < cells; ++i) {
    std::string cell;
    if (is_leaf) {
      cell = std::string{17, static_cast<char>(i + 1),    5,   1,   19, 0,
                         6,  static_cast<char>(random()), 'a', 'b', 'c'};
      for (int byte = 0; byte < 8; ++byte) cell += static_cast<char>(random());
    } else {
      cell = std::string(5, '\1');
      big_endian(cell, 0, 4, children[i]);
    }
    top -= cell.size();
    page.replace(top, cell.size(), cell);
    big_endian(page, header + 2 * i, 2, top);
  }
  page[0] = is_leaf ? 0x0D : 0x05;
  big_endian(page, 3, 2, cells);
  if (!is_leaf) big_endian(page, 8, 4, children.back());
  return page;
}

TEST(pages_of_damaged_sqlite_files) {
  Random random(3);
  const int file = ::memfd_create("database", 0);
  CHECK(file >= 0);
  const std::vector<sqlite_pages::WantedColumn> wanted = {
      {3, false, 0}, {0, false, 0}, {2, true, -5}};
  size_t read = 0;
  for (size_t input = 0; input < input_count(); ++input) {
    std::string data(kPage, '\0');
    big_endian(data, 16, 2, kPage);
    data += sqlite_page(random, {3, 4, 5}) + sqlite_page(random, {6, 7});
    for (int leaf = 0; leaf < 4; ++leaf) data += sqlite_page(random, {});
    for (size_t i = below(random, 4); i > 0; --i) {
      const size_t page = below(random, 3) == 0 ? 0 : below(random, data.size() / kPage);
      const size_t at = page * kPage + below(random, below(random, 2) == 0 ? 40 : kPage);
      if (below(random, 3) == 0)
        data[at] = static_cast<char>(data[at] ^ (1 << below(random, 8)));
      else
        data[at] = static_cast<char>(random());
    }
    if (below(random, 8) == 0) data.resize(below(random, data.size()));
    CHECK(::ftruncate(file, static_cast<off_t>(data.size())) == 0);
    CHECK(::pwrite(file, data.data(), data.size(), 0) == static_cast<ssize_t>(data.size()));
    std::vector<Column<int64_t>> values;
    const int64_t rows =
        sqlite_pages::scan_table(file, 2, wanted, below(random, 9) == 0 ? 9 : 1000, values);
    if (rows < 0) continue;
    ++read;
    for (const auto& column : values) CHECK_EQ(column.size(), static_cast<size_t>(rows));
  }
  ::close(file);
  CHECK(read > input_count() / 4);
}

}  // namespace
