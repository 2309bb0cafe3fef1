// SPDX-License-Identifier: Apache-2.0
// _core.scan_sqlite_table(): reads integer columns of a table of an SQLite file
// (core/sqlite_pages/table_scan.hpp).
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "adapters/python/gil.hpp"
#include "bindings/column_array.hpp"
#include "bindings/register.hpp"
#include "core/sqlite_pages/table_scan.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;

using Arrays = py::typing::List<py::array_t<int64_t>>;
using Wanted = std::tuple<uint32_t, bool, int64_t>;

std::optional<Arrays> scan_sqlite_table(int file, uint32_t root, const std::vector<Wanted>& columns,
                                        uint64_t max_rows) {
  std::vector<sqlite_pages::WantedColumn> wanted;
  for (const auto& [index, may_be_null, absent] : columns)
    wanted.push_back(sqlite_pages::WantedColumn{index, may_be_null, absent});
  std::vector<Column<int64_t>> values;
  int64_t rows;
  {
    const WithoutGil release;
    rows = sqlite_pages::scan_table(file, root, wanted, max_rows, values);
  }
  if (rows < 0) return std::nullopt;
  Arrays found;
  for (Column<int64_t>& column : values) found.append(array_of(std::move(column)));
  return found;
}

}  // namespace

void register_sqlite_pages(py::module_& module) {
  module.def("scan_sqlite_table", &scan_sqlite_table, py::arg("file"), py::arg("root"),
             py::arg("columns"), py::arg("max_rows"),
             "Return columns (index, may_be_null, absent) of a table as int64 arrays; None "
             "if SQLite must read it.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
