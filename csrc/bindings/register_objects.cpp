// SPDX-License-Identifier: Apache-2.0
// _core.objects_of_types(): the objects of some classes among all that the garbage collector
// tracks. A process may have millions, so no step of Python's is taken for each.
#include <pybind11/pybind11.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bindings/register.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

struct Search {
  std::vector<const PyTypeObject*> types;
  std::vector<py::object> found;

  void look_at(PyObject* object) {
    if (std::find(types.begin(), types.end(), Py_TYPE(object)) != types.end())
      found.push_back(py::reinterpret_borrow<py::object>(object));
  }
};

void look_at_all(Search& search) {
#if PY_VERSION_HEX >= 0x030C0000
  // The collector is off meanwhile. The callback makes no Python object.
  PyUnstable_GC_VisitObjects(
      [](PyObject* object, void* given) {
        static_cast<Search*>(given)->look_at(object);
        return 1;
      },
      &search);
#else
  const py::list all = py::module_::import("gc").attr("get_objects")();
  for (const py::handle object : all) search.look_at(object.ptr());
#endif
}

py::typing::List<py::object> objects_of_types(const py::typing::Iterable<py::type>& types) {
  Search search;
  for (const py::handle type : types)
    search.types.push_back(reinterpret_cast<const PyTypeObject*>(type.ptr()));
  if (!search.types.empty()) look_at_all(search);
  py::typing::List<py::object> found;
  for (py::object& object : search.found) found.append(std::move(object));
  return found;
}

}  // namespace

void register_objects(py::module_& module) {
  module.def("objects_of_types", &objects_of_types, py::arg("types"),
             "Return the objects tracked by the garbage collector whose class is one of `types`; "
             "instances of subclasses are not. Runs no code of the objects. Any thread.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
