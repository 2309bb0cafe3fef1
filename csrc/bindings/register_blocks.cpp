// SPDX-License-Identifier: Apache-2.0
// Capture.find_blocks and Capture.distinct_blocks: where the detail blocks of rows lie, and which
// rows have the same, so that each is decoded once.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/capture_object.hpp"
#include "bindings/register.hpp"
#include "fastprof/export/details.hpp"
#include "fastprof/range_detail/known_blocks.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

// Numbers the distinct blocks of a capture in the order of their first rows.
class BlockCodes {
 public:
  explicit BlockCodes(const Capture& capture) : words_(capture.payload_words.data()) {}

  int32_t code_of(uint32_t at, uint32_t count) {
    int32_t& code = code_at(at);  // a block that rows share is looked at once
    if (code >= 0) return code;
    const uint32_t first = known_.first_of(words_, at, count);
    if (first != at) return code = code_at(first);
    code = static_cast<int32_t>(blocks_.size());
    blocks_.emplace_back(at, count);
    return code;
  }

  // Place and length of each, by code.
  const std::vector<std::pair<uint32_t, uint32_t>>& blocks() const noexcept { return blocks_; }

 private:
  struct Place {
    uint32_t at = 0;
    int32_t code = kFree;
  };
  static constexpr int32_t kFree = -2;

  // The code of a place that was asked for before, else -1, to be set before the next new one.
  // Open addressing, at most half full.
  int32_t& code_at(uint32_t at) {
    for (size_t i = slot_of(at);; ++i) {
      Place& place = places_[i & (places_.size() - 1)];
      if (place.code != kFree && place.at == at) return place.code;
      if (place.code != kFree) continue;
      if (++places_used_ * 2 > places_.size()) {
        grow();
        --places_used_;
        return code_at(at);
      }
      place = {at, -1};
      return place.code;
    }
  }

  static size_t slot_of(uint32_t at) noexcept {
    return static_cast<size_t>(at * uint64_t{0x9E3779B97F4A7C15u} >> 32);
  }

  void grow() {
    std::vector<Place> grown(places_.size() * 4);
    for (const Place& place : places_) {
      if (place.code == kFree) continue;
      size_t i = slot_of(place.at);
      while (grown[i & (grown.size() - 1)].code != kFree) ++i;
      grown[i & (grown.size() - 1)] = place;
    }
    places_ = std::move(grown);
  }

  const uint64_t* words_;
  KnownBlocks known_;
  std::vector<std::pair<uint32_t, uint32_t>> blocks_;
  std::vector<Place> places_ = std::vector<Place>(1024);
  size_t places_used_ = 0;
};

// An array over a column that it takes over: no copy.
template <class T>
py::array_t<T> array_of(Column<T> values) {
  auto owner = std::make_unique<Column<T>>(std::move(values));
  T* const data = owner->data();
  const auto size = static_cast<py::ssize_t>(owner->size());
  const py::capsule base(owner.get(), [](void* held) { delete static_cast<Column<T>*>(held); });
  owner.release();
  return py::array_t<T>(size, data, base);
}

size_t detailed_rows(const Capture& capture) {
  return static_cast<size_t>(
      std::count_if(capture.flags.begin(), capture.flags.end(),
                    [](uint8_t flags) { return (flags & event_flag::detail) != 0; }));
}

struct Found {
  Column<int64_t> rows;
  Column<int64_t> at;
};

using Blocks = py::typing::Tuple<py::array_t<int64_t>, py::array_t<int64_t>>;

// A capture is a session's, or was validated when Python made it.
py::typing::List<Blocks> find_blocks(const CaptureObject& self, const std::vector<int>& types) {
  std::vector<Found> found(types.size());
  {
    const py::gil_scoped_release release;
    const Capture& capture = *self.capture;
    const uint64_t* const first = capture.payload_words.data();
    const size_t most = detailed_rows(capture);
    for (Found& one : found) {
      one.rows.reserve(most);  // memory that is not touched costs nothing
      one.at.reserve(most);
    }
    for (size_t row = 0; row < capture.size(); ++row) {
      for_each_detail(capture, row, [&](DetailType kind, const uint64_t* words, size_t) {
        for (size_t i = 0; i < types.size(); ++i) {
          if (types[i] != static_cast<int>(kind)) continue;
          found[i].rows.push_back(static_cast<int64_t>(row));
          found[i].at.push_back(words - first);
        }
      });
    }
  }
  py::typing::List<Blocks> all;
  for (Found& one : found)
    all.append(py::make_tuple(array_of(std::move(one.rows)), array_of(std::move(one.at))));
  return all;
}

using Distinct = py::typing::Tuple<py::array_t<int64_t>, py::array_t<int32_t>,
                                   py::typing::List<py::typing::List<py::int_>>>;

Distinct distinct_blocks(const CaptureObject& self, int type) {
  const Capture& capture = *self.capture;
  const uint64_t* const first = capture.payload_words.data();
  Column<int64_t> rows;
  Column<int32_t> codes;
  BlockCodes distinct(capture);
  {
    const py::gil_scoped_release release;
    const size_t most = detailed_rows(capture);
    rows.reserve(most);
    codes.reserve(most);
    for (size_t row = 0; row < capture.size(); ++row) {
      bool found = false;
      for_each_detail(capture, row, [&](DetailType kind, const uint64_t* words, size_t count) {
        if (found || static_cast<int>(kind) != type) return;
        found = true;
        rows.push_back(static_cast<int64_t>(row));
        codes.push_back(
            distinct.code_of(static_cast<uint32_t>(words - first), static_cast<uint32_t>(count)));
      });
    }
  }
  std::vector<std::vector<uint64_t>> blocks;
  for (const auto& [at, count] : distinct.blocks())
    blocks.emplace_back(first + at, first + at + count);
  return py::make_tuple(array_of(std::move(rows)), array_of(std::move(codes)), blocks);
}

}  // namespace

void register_blocks(py::module_& module) {
  const py::object type = module.attr("Capture");
  type.attr("find_blocks") = py::cpp_function(
      &find_blocks, py::name("find_blocks"), py::is_method(type), py::arg("types"),
      "(rows, at) for each of these types: the rows with such a detail block, ascending, and the "
      "index in payload_words of its first content word.");
  type.attr("distinct_blocks") = py::cpp_function(&distinct_blocks, py::name("distinct_blocks"),
                                                  py::is_method(type), py::arg("type"),
                                                  "(rows, codes, blocks): the rows with a detail "
                                                  "block of this type, the first of each, and the "
                                                  "words of the distinct blocks by code.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
