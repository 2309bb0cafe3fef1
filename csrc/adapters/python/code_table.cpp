// SPDX-License-Identifier: Apache-2.0
#include "adapters/python/code_table.hpp"

#include <algorithm>

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 14;
constexpr size_t kMaxTableBytes = size_t{1} << 22;
constexpr size_t kMaxHeadBytes = 128;  // of texts and bytes

void append_utf8(uint32_t point, std::string* to) {
  if (point < 0x80) {
    *to += static_cast<char>(point);
    return;
  }
  if (point >= 0xD800 && point < 0xE000) point = 0xFFFD;  // half of a pair: no text in UTF-8
  if (point < 0x800) {
    *to += static_cast<char>(0xC0 | (point >> 6));
  } else {
    if (point < 0x10000) {
      *to += static_cast<char>(0xE0 | (point >> 12));
    } else {
      *to += static_cast<char>(0xF0 | (point >> 18));
      *to += static_cast<char>(0x80 | ((point >> 12) & 0x3F));
    }
    *to += static_cast<char>(0x80 | ((point >> 6) & 0x3F));
  }
  *to += static_cast<char>(0x80 | (point & 0x3F));
}

uint32_t variable_length(const uint8_t*& at, const uint8_t* end) noexcept {
  uint32_t value = 0;
  for (int shift = 0; at != end && shift < 32; shift += 6) {
    const uint8_t byte = *at++;
    value |= static_cast<uint32_t>(byte & 63) << shift;
    if ((byte & 64) == 0) break;
  }
  return value;
}

int signed_variable_length(const uint8_t*& at, const uint8_t* end) noexcept {
  const uint32_t value = variable_length(at, end);
  const auto half = static_cast<int>(value >> 1);
  return (value & 1) != 0 ? -half : half;
}

}  // namespace

std::vector<std::pair<uint32_t, int>> decode_lines(const uint8_t* table, size_t size_bytes,
                                                   int first_line, size_t minor) {
  std::vector<std::pair<uint32_t, int>> lines;
  const uint8_t* const end = table + size_bytes;
  uint32_t begin = 0;
  int line = first_line;
  if (minor < 11) {
    for (const uint8_t* at = table; at != end && at + 1 != end; at += 2) {
      const auto advance = static_cast<int8_t>(at[1]);
      if (advance != -128) line += advance;
      if (at[0] != 0) lines.emplace_back(begin, advance == -128 ? 0 : line);
      begin += at[0];
    }
    return lines;
  }
  // An entry: 1, four bits of its form, three bits of its length in instructions less one.
  constexpr uint8_t kNoLine = 15;
  constexpr uint8_t kLong = 14;
  constexpr uint8_t kNoColumns = 13;
  constexpr uint8_t kOneLine = 10;  // to 12: the line advances by 0 to 2
  for (const uint8_t* at = table; at != end;) {
    const uint8_t form = (*at >> 3) & 15;
    const uint32_t length = 2 * ((*at & 7u) + 1);
    ++at;
    if (form == kLong || form == kNoColumns)
      line += signed_variable_length(at, end);
    else if (form >= kOneLine && form != kNoLine)
      line += form - kOneLine;
    lines.emplace_back(begin, form == kNoLine ? 0 : line);
    begin += length;
    while (at != end && (*at & 0x80) == 0) ++at;  // columns
  }
  return lines;
}

CodeTable::Identity CodeTable::identity_of(uintptr_t code, const char* head) const noexcept {
  return {code,
          load_at<uintptr_t>(head, layout_.code_name),
          load_at<uintptr_t>(head, layout_.code_file),
          load_at<uintptr_t>(head, layout_.code_lines),
          load_at<uintptr_t>(head, layout_.code_constants),
          load_at<int>(head, layout_.code_first_line)};
}

uint32_t CodeTable::find(uintptr_t code, const char* head) const {
  const auto known = known_.find(identity_of(code, head));
  return known == known_.end() ? kUnknown : known->second;
}

bool CodeTable::copy_text(uintptr_t text, std::string* to) const {
  char head[kMaxHeadBytes];
  if (text % alignof(void*) != 0 || layout_.ascii_bytes > sizeof head ||
      !interpreter_.copy(text, head, layout_.ascii_bytes) || !is_of(head, interpreter_.text_type))
    return false;
  const auto length = load_at<int64_t>(head, layout_.text_length);
  const uint32_t state = load_at<uint32_t>(head, layout_.text_state) >> layout_.text_kind_shift;
  const unsigned kind = state & 7;
  const bool compact = (state >> 3 & 1) != 0;
  const bool ascii = (state >> 4 & 1) != 0;
  if (!compact || (kind != 1 && kind != 2 && kind != 4) || length < 0) return false;
  const size_t kept = std::min(static_cast<size_t>(length), kMaxTextBytes / kind);
  const size_t size_bytes = kept * kind;
  std::vector<char> points(size_bytes);
  const uintptr_t from = text + (ascii ? layout_.ascii_bytes : layout_.compact_bytes);
  if (size_bytes != 0 && !interpreter_.copy(from, points.data(), size_bytes)) return false;
  to->clear();
  for (size_t i = 0; i < kept; ++i) {
    const uint32_t point = kind == 1   ? load_at<uint8_t>(points.data(), i)
                           : kind == 2 ? load_at<uint16_t>(points.data(), 2 * i)
                                       : load_at<uint32_t>(points.data(), 4 * i);
    append_utf8(point < 0x110000 ? point : 0xFFFD, to);
  }
  return true;
}

bool CodeTable::copy_lines(uintptr_t table, CodeNames* names) const {
  char head[kMaxHeadBytes];
  if (table % alignof(void*) != 0 || layout_.bytes_data > sizeof head ||
      !interpreter_.copy(table, head, layout_.bytes_data) || !is_of(head, interpreter_.bytes_type))
    return false;
  const auto size = load_at<uint64_t>(head, layout_.object_size);
  if (size > kMaxTableBytes) return false;
  std::vector<uint8_t> bytes(size);
  if (size != 0 && !interpreter_.copy(table + layout_.bytes_data, bytes.data(), size)) return false;
  names->lines = decode_lines(bytes.data(), size, names->first_line, layout_.minor);
  return true;
}

uint32_t CodeTable::read(uintptr_t code, const char* head) {
  const Identity identity = identity_of(code, head);
  CodeNames names;
  names.first_line = identity.first_line;
  if (!copy_text(identity.name, &names.name) || !copy_text(identity.file, &names.file) ||
      !copy_lines(identity.table, &names))
    return kUnknown;
  std::vector<char> now(layout_.code_head_bytes);
  if (!interpreter_.copy(code, now.data(), now.size()) ||
      !is_of(now.data(), interpreter_.code_type) || !(identity_of(code, now.data()) == identity))
    return kUnknown;
  codes_.push_back(std::move(names));
  return static_cast<uint32_t>(codes_.size() - 1);
}

void CodeTable::keep(uintptr_t code, const char* head, uint32_t number) {
  known_.emplace(identity_of(code, head), number);
}

int CodeTable::line(uint32_t number, int64_t offset) const {
  const auto& lines = codes_[number].lines;
  const auto at = static_cast<uint32_t>(std::max<int64_t>(offset, 0));
  const auto after = std::upper_bound(
      lines.begin(), lines.end(), at,
      [](uint32_t value, const std::pair<uint32_t, int>& entry) { return value < entry.first; });
  return after == lines.begin() ? 0 : std::prev(after)->second;
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
