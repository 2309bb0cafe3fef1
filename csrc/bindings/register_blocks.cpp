// SPDX-License-Identifier: Apache-2.0
// Capture.distinct_blocks: which rows carry the same detail block, so that each is decoded once.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "bindings/capture_object.hpp"
#include "bindings/register.hpp"
#include "fastprof/export/details.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

struct Block {
  const uint64_t* words;
  size_t count;
};

uint64_t hash_words(const Block& block) noexcept {
  uint64_t hash = block.count;
  for (size_t i = 0; i < block.count; ++i) {
    hash = (hash ^ block.words[i]) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

// Numbers the distinct blocks in the order of their first rows. Open addressing, at most half full.
class BlockCodes {
 public:
  BlockCodes() : slots_(1024, -1) {}

  int32_t code_of(const Block& block) {
    const uint64_t hash = hash_words(block);
    for (size_t i = hash;; ++i) {
      int32_t& slot = slots_[i & (slots_.size() - 1)];
      if (slot < 0) {
        const auto code = static_cast<int32_t>(blocks_.size());
        slot = code;
        blocks_.push_back(block);
        hashes_.push_back(hash);
        if (blocks_.size() * 2 > slots_.size()) grow();
        return code;
      }
      const Block& known = blocks_[static_cast<size_t>(slot)];
      if (hashes_[static_cast<size_t>(slot)] == hash && known.count == block.count &&
          std::memcmp(known.words, block.words, block.count * sizeof(uint64_t)) == 0)
        return slot;
    }
  }
  const std::vector<Block>& blocks() const noexcept { return blocks_; }

 private:
  void grow() {
    std::vector<int32_t> grown(slots_.size() * 4, -1);
    for (size_t code = 0; code < hashes_.size(); ++code) {
      size_t i = hashes_[code];
      while (grown[i & (grown.size() - 1)] >= 0) ++i;
      grown[i & (grown.size() - 1)] = static_cast<int32_t>(code);
    }
    slots_ = std::move(grown);
  }

  std::vector<int32_t> slots_;
  std::vector<Block> blocks_;
  std::vector<uint64_t> hashes_;
};

template <class T>
py::array_t<T> array_of(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

using Distinct = py::typing::Tuple<py::array_t<int64_t>, py::array_t<int32_t>,
                                   py::typing::List<py::typing::List<py::int_>>>;

Distinct distinct_blocks(const CaptureObject& self, int type) {
  std::vector<int64_t> rows;
  std::vector<int32_t> codes;
  BlockCodes distinct;
  {
    const py::gil_scoped_release release;
    const Capture& capture = *self.capture;  // a session's, or validated when Python made it
    for (size_t row = 0; row < capture.size(); ++row) {
      if ((capture.flags[row] & event_flag::detail) == 0) continue;
      bool found = false;
      for_each_detail(capture, row, [&](DetailType kind, const uint64_t* words, size_t count) {
        if (found || static_cast<int>(kind) != type) return;
        found = true;
        rows.push_back(static_cast<int64_t>(row));
        codes.push_back(distinct.code_of({words, count}));
      });
    }
  }
  std::vector<std::vector<uint64_t>> blocks;
  for (const Block& block : distinct.blocks())
    blocks.emplace_back(block.words, block.words + block.count);
  return py::make_tuple(array_of(rows), array_of(codes), blocks);
}

}  // namespace

void register_blocks(py::module_& module) {
  const py::object type = module.attr("Capture");
  type.attr("distinct_blocks") = py::cpp_function(&distinct_blocks, py::name("distinct_blocks"),
                                                  py::is_method(type), py::arg("type"),
                                                  "(rows, codes, blocks): the rows with a detail "
                                                  "block of this type, the first of each, and the "
                                                  "words of the distinct blocks by code.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
