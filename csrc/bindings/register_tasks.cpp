// SPDX-License-Identifier: Apache-2.0
// _core.TaskSwitches: one profile's recording of which task each thread runs.
#include <cstdint>

#include "adapters/python/task_switches.hpp"
#include "bindings/hold.hpp"
#include "bindings/register.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

uint64_t g_task_forks = 0;  // in this process's ancestry

class TaskSwitches {
 public:
  TaskSwitches() = default;
  TaskSwitches(const TaskSwitches&) = delete;
  TaskSwitches& operator=(const TaskSwitches&) = delete;
  ~TaskSwitches() { end(); }

  void begin() noexcept {
    if (hold_.active()) return;
    python_adapter::start_task_switches();
    hold_.set();
  }
  void end() noexcept {
    if (hold_.clear()) python_adapter::stop_task_switches();
  }
  bool active() const noexcept { return hold_.active(); }

 private:
  Hold hold_{g_task_forks};
};

PyObject* or_null(const py::object& task) {
  return task.is_none() ? nullptr : task.ptr();
}

}  // namespace

void register_tasks(py::module_& module) {
  py::class_<TaskSwitches>(module, "TaskSwitches", "One profile's recording of task switches.")
      .def(py::init<>())
      .def("begin", &TaskSwitches::begin, "Record which task each thread runs.")
      .def("end", &TaskSwitches::end, "Stop, if it is on. The destructor does, too.")
      .def_property_readonly("active", &TaskSwitches::active);
  module.def(
      "learn_task_steps",
      [](const py::object& task, const py::object& step, const py::object& wakeup) {
        return python_adapter::learn_task_steps(task.ptr(), step.ptr(), wakeup.ptr());
      },
      py::arg("task"), py::arg("step"), py::arg("wakeup"),
      "Find the functions that step asyncio's tasks, from the callbacks of one of them. "
      "False if they are not what is expected.");
  module.def("task_steps_known", &python_adapter::task_steps_known,
             "Return whether learn_task_steps() has succeeded.");
  module.def(
      "enter_task", [](const py::object& task) { python_adapter::enter_task(task.ptr()); },
      py::arg("task"),
      "Record that the calling thread runs a task from now on. For event loops whose steps cannot "
      "be "
      "observed.");
  module.def(
      "leave_task",
      [](const py::object& task, bool ended) { python_adapter::leave_task(task.ptr(), ended); },
      py::arg("task"), py::arg("ended") = false,
      "Record that the calling thread has left the task that it entered last.");
  module.def(
      "note_running_task",
      [](const py::object& task) { python_adapter::note_running_task(or_null(task)); },
      py::arg("task"),
      "Record the task whose step is in progress on the calling thread since before the recording; "
      "None: no task.");
  module.def(
      "running_task_left",
      [](const py::object& task, bool ended) {
        python_adapter::running_task_left(task.ptr(), ended);
      },
      py::arg("task"), py::arg("ended") = false,
      "Record that the step given to note_running_task() is over.");
  module.def(
      "forget_tasks_in_child",
      [] {
        ++g_task_forks;
        python_adapter::forget_task_switches_in_child();
      },
      "Forget the parent's recording of task switches in a forked child.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
