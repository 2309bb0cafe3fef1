// SPDX-License-Identifier: Apache-2.0
// Native replacements of NumPy code for tables, trees and averages:
// fastprof.model.nesting.TableKernels. Arrays are read without the GIL and must not be modified
// during a call.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/python/gil.hpp"
#include "bindings/column_array.hpp"
#include "bindings/register.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/group_sums.hpp"
#include "fastprof/capture/listed_rows.hpp"
#include "fastprof/capture/memory_usage.hpp"
#include "fastprof/capture/nested_codes.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;

template <class T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;
using Mask = std::optional<Array<bool>>;

// Returns the values of a column; raises ValueError unless it has `size` of them.
template <class T>
const T* values_of(const Array<T>& array, size_t size, const char* name) {
  if (array.ndim() != 1 || static_cast<size_t>(array.size()) != size)
    raise<ValueError>(std::string(name) + " must have " + std::to_string(size) + " values");
  return array.data();
}

const uint8_t* values_of(const Mask& mask, size_t size, const char* name) {
  static_assert(sizeof(bool) == 1);
  return mask ? reinterpret_cast<const uint8_t*>(values_of(*mask, size, name)) : nullptr;
}

const SiteKind* kinds_of(const Array<uint8_t>& kind, size_t size) {
  return reinterpret_cast<const SiteKind*>(values_of(kind, size, "kind"));
}

using Usage = py::typing::Tuple<py::typing::Optional<py::array_t<int64_t>>,
                                py::typing::Optional<py::array_t<int64_t>>, py::array_t<int64_t>,
                                py::array_t<int64_t>>;

py::object usage_array(Column<int64_t> usage) {
  if (usage.empty()) return py::none();
  return array_of(std::move(usage));
}

Usage memory_usage(const Array<uint8_t>& kind, const Array<int32_t>& parent, const Mask& nests,
                   const Array<uint32_t>& payload, const Array<uint32_t>& site,
                   const Array<uint64_t>& words, const std::vector<bool>& cpu_sites) {
  MemoryRows table;
  const size_t rows = table.rows = static_cast<size_t>(kind.size());
  table.kind = kinds_of(kind, rows);
  table.parent = values_of(parent, rows, "parent");
  table.nests = values_of(nests, rows, "nests");
  table.payload = values_of(payload, rows, "payload");
  table.site = values_of(site, rows, "site");
  table.words_count = static_cast<size_t>(words.size());
  table.words = values_of(words, table.words_count, "words");
  MemoryUsage found;
  {
    const WithoutGil release;
    found = memory_by_innermost(table, cpu_sites);
  }
  return py::make_tuple(usage_array(std::move(found.cpu)), usage_array(std::move(found.device)),
                        array_of(std::move(found.left_over)), array_of(std::move(found.failed)));
}

using Listed = py::typing::Tuple<py::typing::Optional<py::array_t<int64_t>>, py::array_t<int32_t>>;

Listed listed_rows(const Array<int32_t>& parent, const std::optional<Array<uint8_t>>& kind,
                   const Mask& nests, const Mask& hidden, const Array<uint32_t>& site,
                   const std::vector<int32_t>& name_of_site) {
  ListRequest table;
  const size_t rows = table.rows = static_cast<size_t>(parent.size());
  table.parent = values_of(parent, rows, "parent");
  if (kind) table.kind = kinds_of(*kind, rows);
  table.nests = values_of(nests, rows, "nests");
  table.hidden = values_of(hidden, rows, "hidden");
  table.site = values_of(site, rows, "site");
  ListedRows found;
  {
    const WithoutGil release;
    found = list_rows(table, name_of_site);
  }
  py::object listed = py::none();
  if (!found.all) listed = array_of(std::move(found.rows));
  return py::make_tuple(listed, array_of(std::move(found.parent)));
}

using Sums = py::typing::Tuple<py::array_t<int64_t>, py::array_t<int64_t>, py::array_t<int64_t>>;

py::array_t<int64_t> int64_array(const std::vector<uint64_t>& values) {
  py::array_t<int64_t> array(static_cast<py::ssize_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i)
    array.mutable_data()[i] = static_cast<int64_t>(values[i]);
  return array;
}

// Calls sum(GroupedEvents) with codes of either width, 4 or 8 bytes, signed or unsigned.
template <class Sum>
auto with_events(const py::array& codes, size_t groups, const Array<int32_t>& parent,
                 const std::optional<Array<int64_t>>& rows, size_t table_rows, const Mask& on_cpu,
                 const Mask& is_async, const Sum& sum) {
  const auto with_codes = [&](const auto& typed) {
    using Code = std::decay_t<decltype(*typed.data())>;
    GroupedEvents<Code> events;
    const size_t size = events.size = static_cast<size_t>(parent.size());
    events.groups = groups;
    events.codes = values_of(typed, size, "codes");
    events.parent = values_of(parent, size, "parent");
    if (rows) events.rows = values_of(*rows, size, "rows");
    events.table_rows = table_rows;
    events.on_cpu = values_of(on_cpu, size, "on_cpu");
    events.is_async = values_of(is_async, size, "is_async");
    const WithoutGil release;
    return sum(events);
  };
  const char kind = codes.dtype().kind();
  if (kind != 'i' && kind != 'u') raise<ValueError>("codes must be integers");
  if (codes.dtype().itemsize() == 4)
    return with_codes(Array<uint32_t>(py::array(codes).view("uint32")));
  return with_codes(Array<int64_t>(codes));
}

Sums arrays_of(const GroupSums& sums) {
  return py::make_tuple(int64_array(sums.total), int64_array(sums.own), int64_array(sums.count));
}

Sums group_times(const py::array& codes, size_t groups, const Array<int32_t>& parent,
                 const std::optional<Array<int64_t>>& rows, const Mask& on_cpu,
                 const Mask& is_async, const Array<int64_t>& start, const Array<int64_t>& end) {
  const auto size = static_cast<size_t>(start.size());
  const int64_t* const starts = values_of(start, size, "start");
  const int64_t* const ends = values_of(end, size, "end");
  return arrays_of(
      with_events(codes, groups, parent, rows, size, on_cpu, is_async,
                  [&](const auto& events) { return sum_times(events, starts, ends); }));
}

Sums group_usage(const py::array& codes, size_t groups, const Array<int32_t>& parent,
                 const std::optional<Array<int64_t>>& rows, const Mask& on_cpu,
                 const Mask& is_async, const Array<int64_t>& values) {
  const auto size = static_cast<size_t>(values.size());
  const int64_t* const first = values_of(values, size, "values");
  return arrays_of(with_events(codes, groups, parent, rows, size, on_cpu, is_async,
                               [&](const auto& events) { return sum_usage(events, first); }));
}

py::array_t<double> group_floats(const py::array& codes, size_t groups,
                                 const Array<int32_t>& parent,
                                 const std::optional<Array<int64_t>>& rows, const Mask& on_cpu,
                                 const Mask& is_async, const std::optional<Array<int64_t>>& order,
                                 const Array<double>& values) {
  const auto size = static_cast<size_t>(values.size());
  const double* const first = values_of(values, size, "values");
  const int64_t* places = nullptr;
  if (order) places = values_of(*order, static_cast<size_t>(parent.size()), "order");
  const std::vector<double> sums =
      with_events(codes, groups, parent, rows, size, on_cpu, is_async,
                  [&](const auto& events) { return sum_floats(events, places, first); });
  return py::array_t<double>(static_cast<py::ssize_t>(sums.size()), sums.data());
}

py::array_t<int64_t> group_firsts(const py::array& codes, size_t groups,
                                  const Array<int32_t>& parent,
                                  const std::optional<Array<int64_t>>& order) {
  const auto size = static_cast<size_t>(parent.size());
  const int64_t* places = nullptr;
  if (order) places = values_of(*order, size, "order");
  const std::vector<int64_t> first =
      with_events(codes, groups, parent, std::nullopt, size, std::nullopt, std::nullopt,
                  [&](const auto& events) { return first_events(events, places); });
  return py::array_t<int64_t>(static_cast<py::ssize_t>(first.size()), first.data());
}

py::array_t<bool> nested_codes_of(const Array<int32_t>& parent, const Array<int32_t>& code,
                                  size_t codes) {
  const auto size = static_cast<size_t>(parent.size());
  const int32_t* const parents = values_of(parent, size, "parent");
  const int32_t* const values = values_of(code, size, "code");
  std::vector<uint8_t> nested;
  {
    const WithoutGil release;
    nested = nested_codes(parents, values, size, codes);
  }
  return py::array_t<bool>(static_cast<py::ssize_t>(size),
                           reinterpret_cast<const bool*>(nested.data()));
}

}  // namespace

void register_table_kernels(py::module_& module) {
  module.def("memory_usage", &memory_usage, py::kw_only(), py::arg("kind"), py::arg("parent"),
             py::arg("nests"), py::arg("payload"), py::arg("site"), py::arg("words"),
             py::arg("cpu_sites"),
             "Attribute memory records to the innermost enclosing ranges. Returns (CPU bytes by "
             "row or None, device bytes by row or None, memory rows outside all ranges, "
             "out-of-memory rows); see capture/memory_usage.hpp.");
  module.def(
      "nested_codes", &nested_codes_of, py::kw_only(), py::arg("parent"), py::arg("code"),
      py::arg("codes"),
      "Mask of the rows inside a row of the same code, such as calls of a function by itself; "
      "capture/nested_codes.hpp.");
  module.def("listed_rows", &listed_rows, py::kw_only(), py::arg("parent"), py::arg("kind"),
             py::arg("nests"), py::arg("hidden"), py::arg("site"), py::arg("name_of_site"),
             "Return (listed rows or None for all, parent of each as a position in the list), "
             "without the repeated rows of wrappers; see capture/listed_rows.hpp.");
  module.def("group_times", &group_times, py::kw_only(), py::arg("codes"), py::arg("groups"),
             py::arg("parent"), py::arg("rows"), py::arg("on_cpu"), py::arg("is_async"),
             py::arg("start"), py::arg("end"),
             "Return (total ns, self ns, number of events) by group; see capture/group_sums.hpp.");
  module.def("group_usage", &group_usage, py::kw_only(), py::arg("codes"), py::arg("groups"),
             py::arg("parent"), py::arg("rows"), py::arg("on_cpu"), py::arg("is_async"),
             py::arg("values"),
             "Return (total, self, number of non-zero values) by group for a column whose values "
             "include those of children; see capture/group_sums.hpp.");
  module.def("group_firsts", &group_firsts, py::kw_only(), py::arg("codes"), py::arg("groups"),
             py::arg("parent"), py::arg("order"),
             "Return the first event of each group in list order, -1 for an empty group; see "
             "capture/group_sums.hpp.");
  module.def("group_floats", &group_floats, py::kw_only(), py::arg("codes"), py::arg("groups"),
             py::arg("parent"), py::arg("rows"), py::arg("on_cpu"), py::arg("is_async"),
             py::arg("order"), py::arg("values"),
             "Return sums by group of a column of floats, added in list order, with NaN as 0; see "
             "capture/group_sums.hpp.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
