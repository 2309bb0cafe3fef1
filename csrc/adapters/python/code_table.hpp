// SPDX-License-Identifier: Apache-2.0
// CodeTable: names and lines of code objects, copied without the GIL and without references.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "adapters/python/interpreter.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// What is kept of a code object.
struct CodeNames {
  std::string name;  // qualified from 3.11
  std::string file;
  int first_line;
  std::vector<std::pair<uint32_t, int>> lines;  // begin in bytes, line; ascending; 0: no line
};

// Returns the begins and lines of a location table of CPython 3.`minor` (PEP 626 on 3.10, PEP 657
// later).
std::vector<std::pair<uint32_t, int>> decode_lines(const uint8_t* table, size_t size_bytes,
                                                   int first_line, size_t minor);

// Use from one thread.
class CodeTable {
 public:
  static constexpr uint32_t kUnknown = ~uint32_t{0};

  explicit CodeTable(const Interpreter& interpreter)
      : interpreter_(interpreter), layout_(interpreter.layout) {}

  // Returns the number of a known code object, by its address and the copy of its head; else
  // kUnknown. An object at the address of a freed one has other names, or the same in all respects.
  uint32_t find(uintptr_t code, const char* head) const;

  // Copies names and lines; kUnknown if they change meanwhile. The caller then calls keep(), once
  // it has found that the object is still in use, so that what was copied belongs to it.
  uint32_t read(uintptr_t code, const char* head);
  void keep(uintptr_t code, const char* head, uint32_t number);
  void drop_newest() { codes_.pop_back(); }
  void clear() {
    codes_.clear();
    known_.clear();
  }

  // Line of the instruction at a byte offset; 0 if it has none.
  int line(uint32_t number, int64_t offset) const;

  const std::vector<CodeNames>& codes() const noexcept { return codes_; }

 private:
  struct Identity {
    uintptr_t code, name, file, table, constants;
    int first_line;
    bool operator==(const Identity& o) const noexcept {
      return code == o.code && name == o.name && file == o.file && table == o.table &&
             constants == o.constants && first_line == o.first_line;
    }
  };
  struct Hash {
    size_t operator()(const Identity& identity) const noexcept {
      return (identity.code >> 4) * 0x9E3779B97F4A7C15u ^ identity.name;
    }
  };
  Identity identity_of(uintptr_t code, const char* head) const noexcept;
  // Whether a copy of an object's head names this type.
  bool is_of(const char* head, uintptr_t type) const noexcept {
    return load_at<uintptr_t>(head, layout_.object_type) == type;
  }
  bool copy_text(uintptr_t text, std::string* to) const;
  bool copy_lines(uintptr_t table, CodeNames* names) const;

  const Interpreter& interpreter_;
  const Layout& layout_;
  std::vector<CodeNames> codes_;
  std::unordered_map<Identity, uint32_t, Hash> known_;
};

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
