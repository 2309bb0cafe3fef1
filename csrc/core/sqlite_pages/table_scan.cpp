// SPDX-License-Identifier: Apache-2.0
// Walks the b-tree pages of an SQLite table: see table_scan.hpp.
#include "core/sqlite_pages/table_scan.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

FASTPROF_NAMESPACE_BEGIN
namespace sqlite_pages {
namespace {

constexpr size_t kFileHeader = 100;  // bytes at the start of page 1
constexpr uint8_t kInterior = 0x05, kLeaf = 0x0D;
constexpr int kMaxDepth = 32;
constexpr size_t kMaxColumns = 2000;  // SQLite's default limit

uint64_t big_endian(const uint8_t* at, size_t size) noexcept {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value = (value << 8) | at[i];
  return value;
}

// Reads SQLite's varint: up to 8 bytes of 7 bits, then one of 8 bits. Returns false at the end.
bool read_varint(const uint8_t*& at, const uint8_t* end, uint64_t& value) noexcept {
  value = 0;
  for (int i = 0; i < 9; ++i) {
    if (at == end) return false;
    const uint8_t byte = *at++;
    if (i == 8) {
      value = (value << 8) | byte;
      return true;
    }
    value = (value << 7) | (byte & 0x7F);
    if (byte < 0x80) return true;
  }
  return false;
}

// Returns the size in bytes of a value with this serial type.
uint64_t value_size(uint64_t type) noexcept {
  constexpr uint8_t kSizes[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};
  return type < 12 ? kSizes[type] : (type - 12) / 2;
}

class Scan {
 public:
  Scan(int file, const std::vector<WantedColumn>& columns, uint64_t max_rows,
       std::vector<Column<int64_t>>& values)
      : file_(file), columns_(columns), max_rows_(max_rows), values_(values) {}

  bool run(uint32_t root) {
    struct stat status;
    uint8_t header[kFileHeader];
    if (::fstat(file_, &status) != 0 || !read_at(header, kFileHeader, 0)) return false;
    const uint64_t size = big_endian(header + 16, 2);
    page_size_ = size == 1 ? 65536 : static_cast<size_t>(size);
    const size_t reserved = header[20];
    if (page_size_ < 512 || (page_size_ & (page_size_ - 1)) != 0 || reserved > page_size_ - 480)
      return false;
    usable_ = page_size_ - reserved;
    pages_ = static_cast<uint64_t>(status.st_size) / page_size_;
    for (const WantedColumn& column : columns_) {
      if (column.index >= kMaxColumns) return false;
      if (column.index >= last_) last_ = column.index + 1;
    }
    column_of_.assign(last_, -1);
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (column_of_[columns_[i].index] >= 0) return false;
      column_of_[columns_[i].index] = static_cast<int>(i);
    }
    return read_page(root, 0);
  }
  uint64_t rows() const noexcept { return rows_; }

 private:
  bool read_at(uint8_t* to, size_t size, uint64_t offset) const noexcept {
    while (size > 0) {
      const ssize_t got = ::pread(file_, to, size, static_cast<off_t>(offset));
      if (got <= 0) return false;
      to += got;
      size -= static_cast<size_t>(got);
      offset += static_cast<uint64_t>(got);
    }
    return true;
  }

  bool read_page(uint64_t number, int depth) {
    // Each page belongs to one tree, once: more visits than pages are a cycle.
    if (number == 0 || number > pages_ || depth > kMaxDepth || ++visited_ > pages_) return false;
    std::vector<uint8_t> page(page_size_);
    if (!read_at(page.data(), page_size_, (number - 1) * page_size_)) return false;
    const size_t begin = number == 1 ? kFileHeader : 0;
    const uint8_t kind = page[begin];
    const size_t cells = big_endian(page.data() + begin + 3, 2);
    const size_t header = begin + (kind == kInterior ? 12 : 8);
    if ((kind != kInterior && kind != kLeaf) || header + 2 * cells > usable_) return false;
    for (size_t i = 0; i < cells; ++i) {
      const size_t offset = big_endian(page.data() + header + 2 * i, 2);
      if (offset < header || offset + 4 > usable_) return false;
      const uint8_t* at = page.data() + offset;
      if (kind == kLeaf) {
        if (!read_cell(at, page.data() + usable_)) return false;
      } else if (!read_page(big_endian(at, 4), depth + 1)) {
        return false;
      }
    }
    return kind == kLeaf || read_page(big_endian(page.data() + begin + 8, 4), depth + 1);
  }

  bool read_cell(const uint8_t* at, const uint8_t* end) {
    uint64_t size, rowid;
    if (!read_varint(at, end, size) || !read_varint(at, end, rowid)) return false;
    const uint64_t most = usable_ - 35;
    uint64_t local = size;
    if (size > most) {  // the rest lies on overflow pages
      const uint64_t least = (usable_ - 12) * 32 / 255 - 23;
      local = least + (size - least) % (usable_ - 4);
      if (local > most) local = least;
    }
    if (local > static_cast<uint64_t>(end - at) || ++rows_ > max_rows_) return false;
    return read_record(at, at + local);
  }

  bool read_record(const uint8_t* record, const uint8_t* end) {
    const uint8_t* types = record;
    uint64_t header;
    if (!read_varint(types, end, header) || header > static_cast<uint64_t>(end - record))
      return false;
    const uint8_t* const types_end = record + header;
    const uint8_t* value = types_end;
    for (size_t i = 0; i < last_; ++i) {
      uint64_t type;
      // A record without the column has the schema's default value, which is not read here.
      if (types >= types_end || !read_varint(types, types_end, type)) return false;
      const uint64_t size = value_size(type);
      if (size > static_cast<uint64_t>(end - value)) return false;
      if (column_of_[i] >= 0 && !add(static_cast<size_t>(column_of_[i]), type, value, size))
        return false;
      value += size;
    }
    return true;
  }

  bool add(size_t column, uint64_t type, const uint8_t* value, uint64_t size) {
    int64_t number = 0;
    if (type >= 1 && type <= 6) {
      const auto shift = static_cast<int>(64 - 8 * size);  // extends the sign
      number = static_cast<int64_t>(big_endian(value, static_cast<size_t>(size)) << shift) >> shift;
    } else if (type == 8 || type == 9) {
      number = static_cast<int64_t>(type - 8);
    } else if (type == 0 && columns_[column].may_be_null) {
      number = columns_[column].absent;
    } else {
      return false;
    }
    values_[column].push_back(number);
    return true;
  }

  int file_;
  const std::vector<WantedColumn>& columns_;
  uint64_t max_rows_;
  std::vector<Column<int64_t>>& values_;
  size_t page_size_ = 0, usable_ = 0, last_ = 0;
  uint64_t pages_ = 0, visited_ = 0, rows_ = 0;
  std::vector<int> column_of_;  // by index in the record: column, or -1
};

}  // namespace

int64_t scan_table(int file, uint32_t root, const std::vector<WantedColumn>& columns,
                   uint64_t max_rows, std::vector<Column<int64_t>>& values) {
  values.clear();
  values.resize(columns.size());
  Scan scan(file, columns, max_rows, values);
  return scan.run(root) ? static_cast<int64_t>(scan.rows()) : -1;
}

}  // namespace sqlite_pages
FASTPROF_NAMESPACE_END
