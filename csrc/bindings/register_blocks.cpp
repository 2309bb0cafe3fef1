// SPDX-License-Identifier: Apache-2.0
// Capture.read_details, flops_of and find_blocks: decode the detail blocks of rows to columns, and
// locate them.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "adapters/python/gil.hpp"
#include "bindings/capture_object.hpp"
#include "bindings/column_array.hpp"
#include "bindings/register.hpp"
#include "fastprof/export/details.hpp"
#include "fastprof/payload/blocks/detail_columns.hpp"
#include "fastprof/payload/blocks/op_flops.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;

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

// The capture is valid: made by a session, or validated when created from Python.
py::typing::List<Blocks> find_blocks(const CaptureObject& self, const std::vector<int>& types) {
  std::vector<Found> found(types.size());
  {
    const WithoutGil release;
    const Capture& capture = *self.capture;
    const uint64_t* const first = capture.payload_words.data();
    const size_t most = detailed_rows(capture);
    for (Found& one : found) {
      one.rows.reserve(most);  // untouched memory costs nothing
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

// Columns without values have no entry.
using Details = py::typing::Dict<py::str, py::object>;

void put_texts(Details& all, const char* name, TextCodes& texts) {
  if (texts.codes.exists())
    all[name] = py::make_tuple(array_of(texts.codes.take()), std::move(texts.strings));
}

template <class T>
void put_column(Details& all, const char* name, SparseColumn<T>& column) {
  if (column.exists()) all[name] = array_of(column.take());
}

Details read_details(const CaptureObject& self, const std::vector<bool>& pair_sites) {
  const Capture& capture = *self.capture;
  std::optional<DetailColumns> found;
  {
    const WithoutGil release;
    found.emplace(capture, pair_sites);
  }
  Details all;
  put_column(all, "sequence_nr", found->sequence_nr);
  put_column(all, "fwd_thread", found->fwd_thread);
  put_column(all, "node_id", found->node_id);
  put_column(all, "record_function_id", found->record_function_id);
  put_texts(all, "stack", found->stack);
  put_texts(all, "modules", found->modules);
  put_texts(all, "json", found->json);
  put_texts(all, "overload", found->overload);
  if (!found->inputs.exists()) return all;
  std::vector<std::vector<uint64_t>> blocks;
  const uint64_t* const first = capture.payload_words.data();
  for (const auto& [at, count] : found->input_blocks.blocks())
    blocks.emplace_back(first + at, first + at + count);
  all["inputs"] = py::make_tuple(array_of(found->inputs.take()), std::move(blocks),
                                 std::move(found->site_inputs));
  return all;
}

using Codes = py::array_t<int32_t, py::array::c_style>;

py::array_t<double> flops_of(const CaptureObject& self, const Codes& inputs,
                             const SiteInputs& site_inputs, const std::vector<double>& estimates,
                             const std::vector<bool>& wrappers) {
  Column<double> flops;
  {
    const WithoutGil release;
    flops = flops_by_row(*self.capture, inputs.data(), static_cast<size_t>(inputs.size()),
                         site_inputs, estimates, wrappers);
  }
  return array_of(std::move(flops));
}

}  // namespace

void register_blocks(py::module_& module) {
  const py::object type = module.attr("Capture");
  type.attr("find_blocks") = py::cpp_function(
      &find_blocks, py::name("find_blocks"), py::is_method(type), py::arg("types"),
      "Return (rows, at) for each of `types`: the rows with a detail block of the type, ascending, "
      "and the index in payload_words of the block's first content word.");
  type.attr("read_details") = py::cpp_function(
      &read_details, py::name("read_details"), py::is_method(type), py::arg("pair_sites"),
      "Return the decoded details of all rows by name, read in one pass; kinds that no row has are "
      "omitted. sequence_nr, fwd_thread, node_id: columns, -1 if absent; record_function_id: "
      "column, 0 if absent. stack, modules, json, overload: (codes, indices into strings by code), "
      "code -1 if absent. inputs: (1 + code by row, 0 if absent; the words of each distinct block "
      "by code; the distinct pairs (site, code) of the sites marked in pair_sites).");
  type.attr("flops_of") = py::cpp_function(
      &flops_of, py::name("flops_of"), py::is_method(type), py::arg("inputs"),
      py::arg("site_inputs"), py::arg("estimates"), py::arg("wrappers"),
      "Return FLOPs by row: the estimate of the row's pair (site, code of inputs); 0 for pairs not "
      "in site_inputs, and for rows of sites marked in wrappers that contain a row of another site "
      "with FLOPs.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
