// SPDX-License-Identifier: Apache-2.0
// Reads unwind rules from the unwind tables of loaded code: the part of the DWARF call frame
// information that locates the caller's stack pointer, frame pointer and return address. Format:
// DWARF 5 section 6.4 and the Linux Standard Base, "Exception Frames".
#pragma once

#include <cstdint>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/symbols.hpp"

FASTPROF_NAMESPACE_BEGIN

// A rule of the form used by nearly all code. Offsets in bytes. CFA (canonical frame address): the
// stack pointer in the caller.
struct UnwindRule {
  enum class Cfa : uint8_t {
    unsupported = 0,     // any other form: use the general unwinder
    stack_pointer = 1,   // CFA = sp + cfa_offset
    frame_pointer = 2,   // CFA = fp + cfa_offset
    saved_in_frame = 3,  // CFA = *(fp - cfa_offset): functions that realign their stack
    outermost = 4,       // there is no caller
  };
  Cfa cfa;
  bool frame_pointer_saved;  // else the caller's frame pointer is the current one
  uint32_t cfa_offset;
  uint32_t frame_pointer_below_cfa;   // saved at CFA - this; 0 for saved_in_frame: at *fp
  uint32_t return_address_below_cfa;  // saved at CFA - this
};

namespace unwind_detail {

#if defined(__x86_64__)
constexpr uint64_t kFramePointer = 6, kStackPointer = 7, kReturnAddress = 16;
#else
constexpr uint64_t kFramePointer = 29, kStackPointer = 31, kReturnAddress = 30;
#endif

// Cursor over the tables. A read past the end marks the reader bad; what is missing reads as 0.
class TableReader {
 public:
  TableReader(const uint8_t* first, const uint8_t* last) noexcept : at_(first), last_(last) {}
  bool more() const noexcept { return at_ < last_ && !bad_; }
  bool bad() const noexcept { return bad_; }
  const uint8_t* at() const noexcept { return at_; }
  void skip(uint64_t bytes) noexcept {
    if (bytes > static_cast<uint64_t>(last_ - at_)) {
      bad_ = true;
      at_ = last_;
    } else {
      at_ += bytes;
    }
  }
  uint64_t fixed(unsigned bytes) noexcept {
    if (static_cast<uint64_t>(last_ - at_) < bytes) {
      bad_ = true;
      at_ = last_;
      return 0;
    }
    uint64_t value = 0;
    std::memcpy(&value, at_, bytes);  // both architectures are little-endian
    at_ += bytes;
    return value;
  }
  uint64_t uleb() noexcept {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const uint64_t byte = fixed(1);
      if (shift < 64) value |= (byte & 127) << shift;
      if ((byte & 128) == 0) return value;
    }
  }
  int64_t sleb() noexcept {
    uint64_t value = 0;
    unsigned shift = 0;
    uint64_t byte = 128;
    while ((byte & 128) != 0) {
      byte = fixed(1);
      if (shift < 64) value |= (byte & 127) << shift;
      shift += 7;
    }
    if (shift < 64 && (byte & 64) != 0) value |= ~uint64_t{0} << shift;
    return static_cast<int64_t>(value);
  }

 private:
  const uint8_t* at_;
  const uint8_t* last_;
  bool bad_ = false;
};

// Where a register of the caller is saved.
struct Place {
  enum Kind : uint8_t { same, at_cfa_offset, undefined, at_frame_pointer, other } kind = same;
  int64_t offset = 0;
};

// A row of the call frame table: how to compute the CFA and where registers are saved.
struct Row {
  enum Kind : uint8_t { register_offset, frame_dereference, other } cfa = other;
  uint64_t cfa_register = 0;
  int64_t cfa_offset = 0;
  Place frame_pointer;
  Place return_address;

  Place* place(uint64_t reg) noexcept {
    if (reg == kFramePointer) return &frame_pointer;
    return reg == kReturnAddress ? &return_address : nullptr;
  }
};

// The parts of a common information entry (CIE) that are needed.
struct CommonEntry {
  const uint8_t* instructions = nullptr;
  const uint8_t* last = nullptr;
  uint64_t code_align = 1;
  int64_t data_align = 1;
  unsigned pointer_bytes = 8;  // size of the addresses in the function's entry (FDE)
  bool augmented = false;
  bool ok = false;  // false: unsupported form (among others signal frames)
};

// A factored offset. Wraps on overflow.
inline int64_t times(uint64_t factor, int64_t align) noexcept {
  return static_cast<int64_t>(factor * static_cast<uint64_t>(align));
}
// Returns whether an offset can be represented in an UnwindRule.
inline bool plain_offset(int64_t offset) noexcept {
  return offset >= 0 && offset < (1 << 30) && offset % 8 == 0;
}

// Returns the body of a table entry and sets *last to its end; null for 64-bit DWARF.
inline const uint8_t* entry_body(const uint8_t* entry, const uint8_t** last) noexcept {
  uint32_t length;
  std::memcpy(&length, entry, 4);
  *last = entry + 4 + length;
  return length == 0xFFFFFFFFu ? nullptr : entry + 4;  // 64-bit DWARF is not used in .eh_frame
}

// Returns the size in bytes of a pointer with this DW_EH_PE encoding; 0 if unsupported.
inline unsigned encoded_bytes(uint64_t encoding) noexcept {
  switch (encoding & 15) {
    case 0:   // absptr
    case 4:   // udata8
    case 12:  // sdata8
      return 8;
    case 3:
    case 11:
      return 4;
    case 2:
    case 10:
      return 2;
    default:
      return 0;
  }
}

// Reads a common information entry; `ok` is false if its form is not supported.
inline CommonEntry read_common_entry(const uint8_t* entry) noexcept {
  CommonEntry common;
  const uint8_t* last = nullptr;
  const uint8_t* body = entry_body(entry, &last);
  if (body == nullptr) return common;
  TableReader reader(body + 4, last);
  const uint64_t version = reader.fixed(1);
  const auto* augmentation = reinterpret_cast<const char*>(reader.at());
  while (reader.more() && reader.fixed(1) != 0) {
  }
  if (version != 1 && version != 3) return common;
  common.code_align = reader.uleb();
  common.data_align = reader.sleb();
  const uint64_t return_column = version == 1 ? reader.fixed(1) : reader.uleb();
  if (return_column != kReturnAddress) return common;
  if (*augmentation == 'z') {
    common.augmented = true;
    const uint64_t bytes = reader.uleb();
    const uint8_t* after = reader.at() + bytes;
    for (const char* c = augmentation + 1; *c != 0 && !reader.bad(); ++c) {
      if (*c == 'R') {
        common.pointer_bytes = encoded_bytes(reader.fixed(1));
      } else if (*c == 'P') {
        const uint64_t encoding = reader.fixed(1);
        if ((encoding & 0x70) == 0x50) return common;  // aligned: not used on these architectures
        reader.skip(encoded_bytes(encoding));
      } else if (*c == 'L') {
        reader.fixed(1);
      } else if (*c != 'B' && *c != 'G') {
        return common;  // 'S': a signal frame; or unknown
      }
    }
    if (after > last || reader.bad()) return common;
    reader = TableReader(after, last);
  } else if (*augmentation != 0) {
    return common;
  }
  common.instructions = reader.at();
  common.last = last;
  common.ok = !reader.bad() && common.pointer_bytes != 0;
  return common;
}

// Executes call frame instructions up to address `target`. Returns false at an unsupported
// instruction.
inline bool run_instructions(TableReader reader, const CommonEntry& common, uint64_t location,
                             uint64_t target, const Row& initial, Row* row) noexcept {
  constexpr unsigned kDepth = 8;
  Row remembered[kDepth];
  unsigned depth = 0;
  while (reader.more()) {
    const uint64_t opcode = reader.fixed(1);
    const uint64_t low = opcode & 63;
    uint64_t advance = 0;
    if ((opcode & 0xC0) == 0x40) {  // advance_loc
      advance = low;
    } else if ((opcode & 0xC0) == 0x80) {  // offset
      const auto offset = times(reader.uleb(), common.data_align);
      if (Place* place = row->place(low)) *place = Place{Place::at_cfa_offset, offset};
    } else if ((opcode & 0xC0) == 0xC0) {  // restore
      Row before = initial;
      if (Place* place = row->place(low)) *place = *before.place(low);
    } else {
      switch (opcode) {
        case 0x00:  // nop
          break;
        case 0x02:
          advance = reader.fixed(1);
          break;
        case 0x03:
          advance = reader.fixed(2);
          break;
        case 0x04:
          advance = reader.fixed(4);
          break;
        case 0x05:    // offset_extended
        case 0x11: {  // offset_extended_sf
          const uint64_t reg = reader.uleb();
          const uint64_t factor =
              opcode == 0x05 ? reader.uleb() : static_cast<uint64_t>(reader.sleb());
          if (Place* place = row->place(reg))
            *place = Place{Place::at_cfa_offset, times(factor, common.data_align)};
          break;
        }
        case 0x06: {  // restore_extended
          const uint64_t reg = reader.uleb();
          Row before = initial;
          if (Place* place = row->place(reg)) *place = *before.place(reg);
          break;
        }
        case 0x07: {  // undefined
          if (Place* place = row->place(reader.uleb())) *place = Place{Place::undefined, 0};
          break;
        }
        case 0x08: {  // same_value
          if (Place* place = row->place(reader.uleb())) *place = Place{};
          break;
        }
        case 0x09: {  // register
          Place* place = row->place(reader.uleb());
          reader.uleb();
          if (place != nullptr) *place = Place{Place::other, 0};
          break;
        }
        case 0x0A:  // remember_state
          if (depth == kDepth) return false;
          remembered[depth++] = *row;
          break;
        case 0x0B:  // restore_state
          if (depth == 0) return false;
          *row = remembered[--depth];
          break;
        case 0x0C:    // def_cfa
        case 0x12: {  // def_cfa_sf
          row->cfa = Row::register_offset;
          row->cfa_register = reader.uleb();
          row->cfa_offset = opcode == 0x0C
                                ? static_cast<int64_t>(reader.uleb())
                                : times(static_cast<uint64_t>(reader.sleb()), common.data_align);
          break;
        }
        case 0x0D:  // def_cfa_register
          row->cfa_register = reader.uleb();
          break;
        case 0x0E:  // def_cfa_offset
          row->cfa_offset = static_cast<int64_t>(reader.uleb());
          break;
        case 0x13:  // def_cfa_offset_sf
          row->cfa_offset = times(static_cast<uint64_t>(reader.sleb()), common.data_align);
          break;
        case 0x0F: {  // def_cfa_expression; only: load from an offset to the frame pointer
          const uint64_t bytes = reader.uleb();
          TableReader expression(reader.at(), reader.at());
          if (bytes <= 16) expression = TableReader(reader.at(), reader.at() + bytes);
          reader.skip(bytes);
          if (reader.bad()) return false;
          row->cfa = Row::other;
          if (expression.more() && expression.fixed(1) == 0x70 + kFramePointer) {
            row->cfa_offset = expression.sleb();
            if (expression.more() && expression.fixed(1) == 0x06 && !expression.more())
              row->cfa = Row::frame_dereference;
          }
          break;
        }
        case 0x10:    // expression; only: at the frame pointer itself
        case 0x16: {  // val_expression
          const uint64_t reg = reader.uleb();
          const uint64_t bytes = reader.uleb();
          const uint8_t* text = reader.at();
          reader.skip(bytes);
          if (reader.bad()) return false;
          if (Place* place = row->place(reg)) {
            const bool at_frame_pointer =
                opcode == 0x10 && bytes == 2 && text[0] == 0x70 + kFramePointer && text[1] == 0;
            *place = Place{at_frame_pointer ? Place::at_frame_pointer : Place::other, 0};
          }
          break;
        }
        case 0x14:    // val_offset
        case 0x15: {  // val_offset_sf
          const uint64_t reg = reader.uleb();
          reader.uleb();
          if (Place* place = row->place(reg)) *place = Place{Place::other, 0};
          break;
        }
        case 0x2D:  // aarch64: return address signed from here on; always stripped
          break;
        case 0x2E:  // GNU_args_size
          reader.uleb();
          break;
        default:  // set_loc, vendor codes
          return false;
      }
    }
    if (advance != 0) {
      location += advance * common.code_align;
      if (location > target) return !reader.bad();
    }
  }
  return !reader.bad();
}

// Converts a table row to a rule; `unsupported` if it has another form.
inline UnwindRule rule_of_row(const Row& row) noexcept {
  UnwindRule rule{};
  if (row.return_address.kind == Place::undefined) {
    rule.cfa = UnwindRule::Cfa::outermost;
    return rule;
  }
  const Place& ra = row.return_address;
  // Negates offsets (below the CFA) without overflow.
  const auto below = [](int64_t offset) {
    return static_cast<int64_t>(0 - static_cast<uint64_t>(offset));
  };
  if (ra.kind != Place::at_cfa_offset || ra.offset >= 0 || !plain_offset(below(ra.offset)))
    return rule;
  const Place& fp = row.frame_pointer;
  if (row.cfa == Row::register_offset) {
    if (!plain_offset(row.cfa_offset)) return rule;
    if (fp.kind == Place::at_cfa_offset) {
      if (fp.offset >= 0 || !plain_offset(below(fp.offset))) return rule;
      rule.frame_pointer_saved = true;
      rule.frame_pointer_below_cfa = static_cast<uint32_t>(below(fp.offset));
    } else if (fp.kind != Place::same) {
      return rule;
    }
    if (row.cfa_register == kStackPointer) rule.cfa = UnwindRule::Cfa::stack_pointer;
    if (row.cfa_register == kFramePointer) rule.cfa = UnwindRule::Cfa::frame_pointer;
    rule.cfa_offset = static_cast<uint32_t>(row.cfa_offset);
  } else if (row.cfa == Row::frame_dereference && fp.kind == Place::at_frame_pointer &&
             row.cfa_offset < 0 && plain_offset(below(row.cfa_offset))) {
    rule.cfa = UnwindRule::Cfa::saved_in_frame;
    rule.frame_pointer_saved = true;
    rule.cfa_offset = static_cast<uint32_t>(below(row.cfa_offset));
  }
  rule.return_address_below_cfa = static_cast<uint32_t>(below(ra.offset));
  return rule;
}

}  // namespace unwind_detail

// Returns the rule for the call that precedes a return address. Reads the tables of loaded code;
// does not allocate; about 0.5 us. Any thread; the code must stay loaded during the call, as code
// on the caller's stack does.
inline UnwindRule find_unwind_rule(uintptr_t return_address) noexcept {
  using namespace unwind_detail;
  const UnwindRule unsupported{};
  const uintptr_t target = return_address - 1;
  void* function = nullptr;
  const auto* entry = static_cast<const uint8_t*>(
      platform::find_frame_entry(reinterpret_cast<void*>(target), &function));
  if (entry == nullptr) return unsupported;
  const uint8_t* last = nullptr;
  const uint8_t* body = entry_body(entry, &last);
  if (body == nullptr) return unsupported;
  uint32_t to_common;
  std::memcpy(&to_common, body, 4);
  const CommonEntry common = read_common_entry(body - to_common);
  if (!common.ok) return unsupported;
  TableReader reader(body + 4, last);
  reader.skip(2 * common.pointer_bytes);
  if (common.augmented) reader.skip(reader.uleb());
  Row initial, row;
  if (!run_instructions(TableReader(common.instructions, common.last), common, 0, ~uint64_t{0},
                        initial, &initial))
    return unsupported;
  row = initial;
  if (!run_instructions(reader, common, reinterpret_cast<uintptr_t>(function), target, initial,
                        &row))
    return unsupported;
  return rule_of_row(row);
}

FASTPROF_NAMESPACE_END
