// SPDX-License-Identifier: Apache-2.0
// Unwind tables of the DWARF format, written by hand: what each instruction and each form of an
// entry means, and that what is damaged or unknown gives no rule.
#include <cstring>
#include <string>
#include <vector>

#include "check.hpp"
#include "fastprof/payload/native_stack/unwind_rule.hpp"

using namespace fastprof;
using namespace fastprof::unwind_detail;
using Bytes = std::vector<uint8_t>;

namespace {

constexpr auto kFp = static_cast<uint8_t>(kFramePointer);
constexpr auto kSp = static_cast<uint8_t>(kStackPointer);
constexpr auto kRa = static_cast<uint8_t>(kReturnAddress);
constexpr uint8_t kOther = 3;  // a register without a meaning here

TableReader reader_of(const Bytes& bytes) {
  return TableReader(bytes.data(), bytes.data() + bytes.size());
}

// The row after these instructions, beginning with a CFA of sp + 8 and the return address below it.
struct Outcome {
  bool supported;
  Row row;
};
Row first_row() {
  Row row;
  row.cfa = Row::register_offset;
  row.cfa_register = kSp;
  row.cfa_offset = 8;
  row.return_address = Place{Place::at_cfa_offset, -8};
  return row;
}
Outcome run(const Bytes& program, uint64_t target = 1000, const Row& initial = first_row()) {
  CommonEntry common;
  common.code_align = 4;
  common.data_align = -8;
  Outcome outcome{false, first_row()};
  outcome.supported =
      run_instructions(reader_of(program), common, 1000, target, initial, &outcome.row);
  return outcome;
}
Row row_after(const Bytes& program) {
  const Outcome outcome = run(program);
  CHECK(outcome.supported);
  return outcome.row;
}

bool same(const Place& a, Place::Kind kind, int64_t offset = 0) {
  return a.kind == kind && a.offset == offset;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A common entry: its length, 0, the version, the augmentation and what follows.
Bytes common_entry(uint8_t version, const std::string& augmentation, const Bytes& rest) {
  Bytes entry = Bytes{0, 0, 0, 0, 0, 0, 0, 0, version} +
                Bytes(augmentation.begin(), augmentation.end()) + Bytes{0} + rest;
  entry[0] = static_cast<uint8_t>(entry.size() - 4);
  return entry;
}
bool is_supported(const Bytes& entry) {
  return read_common_entry(entry.data()).ok;
}

}  // namespace

TEST(numbers_of_a_variable_size) {
  struct Case {
    Bytes bytes;
    uint64_t without_sign;
    int64_t with_sign;
  };
  const Case cases[] = {
      {{0}, 0, 0},
      {{1}, 1, 1},
      {{63}, 63, 63},
      {{64}, 64, -64},
      {{127}, 127, -1},
      {{0x80, 1}, 128, 128},
      {{0xFF, 0x3F}, 8191, 8191},
      {{0x80, 0x40}, 8192, -8192},
      {{0xE5, 0x8E, 0x26}, 624485, 624485},
      {{0xC0, 0xBB, 0x78}, 1973696, -123456},
      {{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}, ~uint64_t{0}, -1},
      {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7F}, uint64_t{1} << 63, INT64_MIN},
      // Bits above the 64th are dropped.
      {{0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, 2, 2},
  };
  for (const Case& c : cases) {
    TableReader unsigned_reader = reader_of(c.bytes), signed_reader = reader_of(c.bytes);
    CHECK_EQ(unsigned_reader.uleb(), c.without_sign);
    CHECK_EQ(signed_reader.sleb(), c.with_sign);
    CHECK(!unsigned_reader.more() && !unsigned_reader.bad());
    CHECK(!signed_reader.more() && !signed_reader.bad());
  }
  const Bytes two = {5, 0x7E, 9};
  TableReader reader = reader_of(two);
  CHECK_EQ(reader.uleb(), 5u);
  CHECK_EQ(reader.sleb(), -2);
  CHECK_EQ(reader.fixed(1), 9u);
}

TEST(a_number_that_is_cut_short_is_noticed) {
  for (const Bytes& bytes : {Bytes{}, Bytes{0x80}, Bytes{0xFF, 0xFF}}) {
    TableReader unsigned_reader = reader_of(bytes), signed_reader = reader_of(bytes);
    unsigned_reader.uleb();
    CHECK(unsigned_reader.bad());
    signed_reader.sleb();
    CHECK(signed_reader.bad());
  }
}

TEST(instructions_hold_from_their_address_on) {
  // In units of 4 bytes: 1, 2, 0x0102, 0x00010000.
  const Bytes program = {0x0E, 16,   0x41, 0x0E, 24, 0x02, 2, 0x0E, 32,   0x03, 2,
                         1,    0x0E, 40,   0x04, 0,  0,    1, 0,    0x0E, 48};
  struct Case {
    uint64_t target;
    int64_t offset;
  };
  const Case cases[] = {{1000, 16}, {1003, 16}, {1004, 24},   {1011, 24},   {1012, 32},
                        {2043, 32}, {2044, 40}, {264187, 40}, {264188, 48}, {1 << 30, 48}};
  for (const Case& c : cases) {
    const Outcome outcome = run(program, c.target);
    CHECK(outcome.supported);
    CHECK_EQ(outcome.row.cfa_offset, c.offset);
  }
}

TEST(the_cfa_is_a_register_and_an_offset) {
  Row row = row_after({0x0C, kFp, 16});
  CHECK(row.cfa == Row::register_offset && row.cfa_register == kFp && row.cfa_offset == 16);
  row = row_after({0x12, kFp, 0x7D});  // -3 times -8
  CHECK(row.cfa == Row::register_offset && row.cfa_register == kFp && row.cfa_offset == 24);
  row = row_after({0x0D, kFp});
  CHECK(row.cfa_register == kFp && row.cfa_offset == 8);
  row = row_after({0x0E, 0x80, 1});
  CHECK(row.cfa_register == kSp && row.cfa_offset == 128);
  row = row_after({0x13, 0x7E});
  CHECK(row.cfa_register == kSp && row.cfa_offset == 16);
}

TEST(registers_are_saved_at_offsets) {
  const auto offset = static_cast<uint8_t>(0x80 | kFp);
  Row row = row_after({offset, 2});
  CHECK(same(row.frame_pointer, Place::at_cfa_offset, -16));
  CHECK(same(row.return_address, Place::at_cfa_offset, -8));
  row = row_after({0x05, kRa, 3});
  CHECK(same(row.return_address, Place::at_cfa_offset, -24));
  CHECK(same(row.frame_pointer, Place::same));
  row = row_after({0x11, kFp, 0x7C});
  CHECK(same(row.frame_pointer, Place::at_cfa_offset, 32));
  row = row_after({0x07, kRa});
  CHECK(same(row.return_address, Place::undefined));
  row = row_after({0x08, kRa});
  CHECK(same(row.return_address, Place::same));
  row = row_after({0x09, kFp, kOther});
  CHECK(same(row.frame_pointer, Place::other));
  for (const uint8_t value_of : Bytes{0x14, 0x15}) {
    row = row_after({value_of, kFp, 2});
    CHECK(same(row.frame_pointer, Place::other));
  }
}

TEST(registers_are_restored_to_what_they_were_at_the_begin) {
  const Bytes moved = {0x05, kFp, 2, 0x05, kRa, 5};
  Row row = row_after(moved + Bytes{static_cast<uint8_t>(0xC0 | kFp)});
  CHECK(same(row.frame_pointer, Place::same));
  CHECK(same(row.return_address, Place::at_cfa_offset, -40));
  row = row_after(moved + Bytes{0x06, kRa});
  CHECK(same(row.frame_pointer, Place::at_cfa_offset, -16));
  CHECK(same(row.return_address, Place::at_cfa_offset, -8));
}

TEST(instructions_about_other_registers_change_nothing) {
  const auto offset = static_cast<uint8_t>(0x80 | kOther);
  const auto restore = static_cast<uint8_t>(0xC0 | kOther);
  for (const Bytes& program :
       {Bytes{offset, 2}, Bytes{restore}, Bytes{0x05, kOther, 2}, Bytes{0x11, kOther, 2},
        Bytes{0x06, kOther}, Bytes{0x07, kOther}, Bytes{0x08, kOther}, Bytes{0x09, kOther, kFp},
        Bytes{0x14, kOther, 2}, Bytes{0x15, kOther, 2}, Bytes{0x10, kOther, 2, 0x77, 8},
        Bytes{0x16, kOther, 1, 0x77}, Bytes{0x00}, Bytes{0x2D}, Bytes{0x2E, 0x90, 1}}) {
    const Row row = row_after(program + Bytes{0x0E, 56});  // what follows is read where it begins
    CHECK(row.cfa == Row::register_offset && row.cfa_register == kSp && row.cfa_offset == 56);
    CHECK(same(row.frame_pointer, Place::same));
    CHECK(same(row.return_address, Place::at_cfa_offset, -8));
    for (size_t cut = 1; cut < program.size(); ++cut)  // an operand is missing
      CHECK(!run(Bytes(program.begin(), program.begin() + static_cast<long>(cut))).supported);
  }
}

TEST(the_cfa_may_be_loaded_from_an_offset_to_the_frame_pointer) {
  const auto base = static_cast<uint8_t>(0x70 + kFp);
  const auto kind_of = [](const Bytes& expression) {
    const Row row = row_after(Bytes{0x0F, static_cast<uint8_t>(expression.size())} + expression +
                              Bytes{0x05, kFp, 2});
    CHECK(same(row.frame_pointer, Place::at_cfa_offset, -16));  // read behind the expression
    return row.cfa;
  };
  const Row row = row_after({0x0F, 3, base, 0x78, 0x06});
  CHECK(row.cfa == Row::frame_dereference && row.cfa_offset == -8);
  // Up to 16 bytes, here a number with leading zeros of its sign.
  Bytes longest = {base, 0xF8};
  longest.resize(14, 0xFF);
  CHECK(kind_of(longest + Bytes{0x7F, 0x06}) == Row::frame_dereference);
  CHECK(kind_of(longest + Bytes{0xFF, 0x7F, 0x06}) == Row::other);
  const auto other_base = static_cast<uint8_t>(0x70 + kOther);
  for (const Bytes& expression : {Bytes{}, Bytes{base}, Bytes{base, 0x78}, Bytes{base, 0x78, 0x12},
                                  Bytes{base, 0x78, 0x06, 0x06}, Bytes{other_base, 0x78, 0x06}})
    CHECK(kind_of(expression) == Row::other);
  CHECK(!run({0x0F, 3, base, 0x78}).supported);
}

TEST(the_frame_pointer_may_be_saved_where_it_points_to) {
  const auto base = static_cast<uint8_t>(0x70 + kFp);
  CHECK(same(row_after({0x10, kFp, 2, base, 0}).frame_pointer, Place::at_frame_pointer));
  const auto other_base = static_cast<uint8_t>(0x70 + kOther);
  for (const Bytes& program :
       {Bytes{0x16, kFp, 2, base, 0}, Bytes{0x10, kFp, 2, base, 8}, Bytes{0x10, kFp, 1, base},
        Bytes{0x10, kFp, 3, base, 0, 0x06}, Bytes{0x10, kFp, 2, other_base, 0}}) {
    CHECK(same(row_after(program).frame_pointer, Place::other));
    CHECK(!run(Bytes(program.begin(), program.end() - 1)).supported);
  }
}

TEST(unknown_instructions_are_not_supported) {
  for (const int opcode : {0x01, 0x17, 0x1C, 0x2C, 0x2F, 0x3F}) {
    CHECK(!run({static_cast<uint8_t>(opcode), 1, 1}).supported);
    // Those of later addresses are not read.
    CHECK(run({0x41, static_cast<uint8_t>(opcode)}, 1003).supported);
  }
}

TEST(a_common_entry_without_augmentation) {
  const Bytes entry = common_entry(1, "", {4, 0x78, kRa, 0x0C, kSp, 8});
  const CommonEntry common = read_common_entry(entry.data());
  CHECK(common.ok && !common.augmented);
  CHECK_EQ(common.code_align, 4u);
  CHECK_EQ(common.data_align, -8);
  CHECK_EQ(common.pointer_bytes, 8u);
  CHECK(common.instructions == entry.data() + 13);
  CHECK(common.last == entry.data() + entry.size());
  // Since version 3 the register has a variable size.
  const auto low = static_cast<uint8_t>(0x80 | kRa);
  CHECK(is_supported(common_entry(3, "", {1, 0x78, low, 0})));
  CHECK(!is_supported(common_entry(1, "", {1, 0x78, low, 0})));
  for (const int version : {0, 2, 4})
    CHECK(!is_supported(common_entry(static_cast<uint8_t>(version), "", {1, 0x78, kRa})));
  CHECK(!is_supported(common_entry(1, "", {1, 0x78, kOther})));
  CHECK(!is_supported(common_entry(1, "eh", {1, 0x78, kRa})));
  Bytes huge = entry;
  std::memset(huge.data(), 0xFF, 4);  // 64-bit DWARF
  CHECK(!is_supported(huge));
}

TEST(a_common_entry_with_augmentation) {
  const auto entry = [](const std::string& augmentation, const Bytes& data) {
    return common_entry(
        1, augmentation,
        Bytes{1, 0x78, kRa, static_cast<uint8_t>(data.size())} + data + Bytes{0x0E, 8});
  };
  // Personality (four bytes), the encoding of data for it, the encoding of pointers.
  const Bytes whole = entry("zPLR", {0x9B, 1, 2, 3, 4, 0x1B, 0x1B});
  const CommonEntry common = read_common_entry(whole.data());
  CHECK(common.ok && common.augmented);
  CHECK_EQ(common.pointer_bytes, 4u);
  CHECK(common.instructions == whole.data() + whole.size() - 2);
  CHECK(common.last == whole.data() + whole.size());
  CHECK_EQ(read_common_entry(entry("zR", {0x0A}).data()).pointer_bytes, 2u);
  CHECK_EQ(read_common_entry(entry("z", {}).data()).pointer_bytes, 8u);
  // Data that nobody asked for are skipped.
  const Bytes more = entry("zR", {0x1B, 9, 9});
  CHECK(read_common_entry(more.data()).instructions == more.data() + more.size() - 2);
  for (const char* known : {"z", "zB", "zG", "zBG"}) CHECK(is_supported(entry(known, {})));
  CHECK(!is_supported(entry("zS", {})));  // a signal frame
  CHECK(!is_supported(entry("zX", {})));
  CHECK(!is_supported(entry("zR", {0x01})));  // an encoding without a size
  CHECK(!is_supported(entry("zP", {0x50, 0, 0, 0, 0, 0, 0, 0, 0})));
  CHECK(is_supported(entry("zP", {0x10, 0, 0, 0, 0, 0, 0, 0, 0})));
}

TEST(a_common_entry_ends_at_its_length) {
  const Bytes entry = common_entry(1, "zPLR", {1, 0x78, kRa, 7, 0x9B, 1, 2, 3, 4, 0x1B, 0x1B});
  CHECK(is_supported(entry));
  for (size_t size = 8; size < entry.size(); ++size) {
    Bytes cut(entry.begin(), entry.begin() + static_cast<long>(size));
    cut[0] = static_cast<uint8_t>(size - 4);
    CHECK(!is_supported(cut));
  }
}

TEST(what_is_no_code_has_no_rule) {
  static int data = 0;
  for (const uintptr_t address : {uintptr_t{1}, reinterpret_cast<uintptr_t>(&data)})
    CHECK(find_unwind_rule(address).cfa == UnwindRule::Cfa::unsupported);
  const UnwindRule here =
      find_unwind_rule(reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
  CHECK(here.cfa == UnwindRule::Cfa::stack_pointer || here.cfa == UnwindRule::Cfa::frame_pointer);
}
