// SPDX-License-Identifier: Apache-2.0
// _core.rank_step_sums(): what a rank did in each step (core/rank_steps/step_sums.hpp).
#include <pybind11/numpy.h>
#include <pybind11/typing.h>

#include <string>
#include <utility>

#include "adapters/python/gil.hpp"
#include "bindings/column_array.hpp"
#include "bindings/register.hpp"
#include "core/rank_steps/step_sums.hpp"
#include "fastprof/base/error.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;
using Sums = py::typing::Dict<py::str, py::array_t<int64_t>>;

template <class T>
using Numbers = py::array_t<T, py::array::c_style | py::array::forcecast>;

template <class T>
const T* of_size(const Numbers<T>& array, size_t size, const char* name) {
  if (array.ndim() != 1 || static_cast<size_t>(array.size()) != size)
    raise<ValueError>(std::string(name) + " must have " + std::to_string(size) + " values");
  return array.data();
}

Sums rank_step_sums(const Numbers<int64_t>& start_ns, const Numbers<int64_t>& duration_ns,
                    const Numbers<int32_t>& name, const Numbers<int32_t>& category,
                    const Numbers<uint8_t>& class_of_name,
                    const Numbers<uint8_t>& class_of_category,
                    const Numbers<int64_t>& step_start_ns, const Numbers<int64_t>& step_end_ns) {
  rank_steps::Events events;
  events.size = static_cast<size_t>(start_ns.size());
  events.start_ns = of_size(start_ns, events.size, "start_ns");
  events.duration_ns = of_size(duration_ns, events.size, "duration_ns");
  events.name = of_size(name, events.size, "name");
  events.category = of_size(category, events.size, "category");
  events.names = static_cast<size_t>(class_of_name.size());
  events.class_of_name = of_size(class_of_name, events.names, "class_of_name");
  events.categories = static_cast<size_t>(class_of_category.size());
  events.class_of_category = of_size(class_of_category, events.categories, "class_of_category");
  rank_steps::Steps steps;
  steps.size = static_cast<size_t>(step_start_ns.size());
  steps.start_ns = of_size(step_start_ns, steps.size, "step_start_ns");
  steps.end_ns = of_size(step_end_ns, steps.size, "step_end_ns");
  rank_steps::StepSums sums;
  {
    const WithoutGil release;
    sums = step_sums(events, steps);
  }
  Sums found;
  found["computation"] = array_of(std::move(sums.computation));
  found["communication"] = array_of(std::move(sums.communication));
  found["copies"] = array_of(std::move(sums.copies));
  found["exposed_communication"] = array_of(std::move(sums.exposed_communication));
  found["exposed_copies"] = array_of(std::move(sums.exposed_copies));
  found["loader_end"] = array_of(std::move(sums.loader_end));
  found["backward_start"] = array_of(std::move(sums.backward_start));
  found["optimizer_start"] = array_of(std::move(sums.optimizer_start));
  found["optimizer_end"] = array_of(std::move(sums.optimizer_end));
  found["busy"] = array_of(std::move(sums.busy));
  return found;
}

}  // namespace

void register_rank_steps(py::module_& module) {
  module.def("rank_step_sums", &rank_step_sums, py::arg("start_ns"), py::arg("duration_ns"),
             py::arg("name"), py::arg("category"), py::arg("class_of_name"),
             py::arg("class_of_category"), py::arg("step_start_ns"), py::arg("step_end_ns"),
             "Return sums by step and, as busy, by name of the events of a rank.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
