// SPDX-License-Identifier: Apache-2.0
// _core.PythonAllocations: one profile's recording of allocations by Python's own allocators.
#include <cstdint>
#include <string>

#include "adapters/python/allocator_hooks.hpp"
#include "bindings/hold.hpp"
#include "bindings/register.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

uint64_t g_memory_forks = 0;  // in this process's ancestry

class PythonAllocations {
 public:
  explicit PythonAllocations(bool exact) noexcept : exact_(exact) {}
  PythonAllocations(const PythonAllocations&) = delete;
  PythonAllocations& operator=(const PythonAllocations&) = delete;
  ~PythonAllocations() { end(); }

  void begin() noexcept {
    if (hold_.active()) return;
    python_adapter::begin_allocations(exact_);
    hold_.set();
  }
  std::string end() {
    return hold_.clear() ? python_adapter::end_allocations(exact_) : std::string();
  }
  bool active() const noexcept { return hold_.active(); }

 private:
  Hold hold_{g_memory_forks};
  const bool exact_;
};

}  // namespace

void register_python_memory(py::module_& module) {
  py::class_<PythonAllocations>(module, "PythonAllocations",
                                "One profile's recording of Python's allocator domains.")
      .def(py::init<bool>(), py::arg("exact"))
      .def("begin", &PythonAllocations::begin,
           "Record blocks of all threads while a session runs that records memory: each block "
           "(exact), or a sample of them.")
      .def("end", &PythonAllocations::end,
           "Stop, if it is on, and return the domains whose hooks another tool has removed; empty "
           "for none. The destructor does, too.")
      .def_property_readonly("active", &PythonAllocations::active);
  module.def(
      "leave_out_python_allocations", &python_adapter::leave_out_allocations, py::arg("on"),
      "Do not record (True) allocations of this thread; frees are recorded. Return the old value.");
  module.def(
      "untracked_python_allocations", &python_adapter::untracked_allocations,
      "Return the number of blocks that were not recorded since the begin, for lack of memory.");
  module.def("python_memory_after_fork_in_child", [] {
    ++g_memory_forks;
    python_adapter::forget_allocations_in_child();
  });
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
