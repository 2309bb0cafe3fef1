// SPDX-License-Identifier: Apache-2.0
// _core.torch_*: the observer of PyTorch's ops, used by fastprof.adapters.torch.ops.
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "adapters/python/gil.hpp"
#include "adapters/torch/inputs/input_proof.hpp"
#include "adapters/torch/layout/record_function_layout.hpp"
#include "adapters/torch/layout/release_table.hpp"
#include "adapters/torch/layout/self_test.hpp"
#include "adapters/torch/ops/module_hierarchy.hpp"
#include "adapters/torch/ops/op_observer.hpp"
#include "adapters/torch/ops/seen_ops.hpp"
#include "adapters/torch/ops/short_ops.hpp"
#include "adapters/torch/ops/thread_ops.hpp"
#include "bindings/register.hpp"
#include "bindings/torch_fast_ranges.hpp"
#include "fastprof/base/error.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;

using SeenTuple = py::typing::Tuple<py::str, py::int_, py::int_, py::int_, py::int_>;

// Ordered as fastprof.adapters.torch.layout.FIELDS.
using Offsets = std::array<uint32_t, 8>;

bool torch_pause_ops(bool paused) {
  torch_adapter::ThreadOps* ops = torch_adapter::thread_ops();
  if (ops == nullptr) ops = torch_adapter::make_thread_ops();
  if (ops == nullptr) return false;
  const bool before = (ops->flags & torch_adapter::ops_flag::paused) != 0;
  if (paused)
    ops->flags |= torch_adapter::ops_flag::paused;
  else
    ops->flags &= ~torch_adapter::ops_flag::paused;
  return before;
}

uint64_t torch_take_paused_id() {
  torch_adapter::ThreadOps* ops = torch_adapter::thread_ops();
  return ops == nullptr ? 0 : std::exchange(ops->paused_handle, 0);
}

std::string torch_prepare(const std::string& version, bool cxx11_abi,
                          const std::optional<Offsets>& layout) {
  const WithoutGil release;
  if (!layout) return torch_adapter::prepare(version, cxx11_abi);
  const Offsets& at = *layout;
  const torch_adapter::Layout given{at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]};
  return torch_adapter::prepare(version, cxx11_abi, &given);
}

std::optional<Offsets> torch_known_layout(const std::string& version, bool cxx11_abi) {
  const torch_adapter::Layout* known = torch_adapter::find_layout(version, cxx11_abi);
  if (known == nullptr) return std::nullopt;
  return Offsets{
      known->size,   known->thread_id, known->scope, known->sequence_nr, known->forward_thread_id,
      known->handle, known->is_async,  known->name};
}

std::string torch_self_test(const std::string& version, bool cxx11_abi, int shift) {
  const torch_adapter::Layout* known = torch_adapter::find_layout(version, cxx11_abi);
  if (known == nullptr) raise<ValueError>("torch " + version + " is not in the table of layouts");
  torch_adapter::Layout layout = *known;
  layout.sequence_nr += static_cast<uint32_t>(shift);
  const char* why = nullptr;
  const torch_adapter::Functions* functions = torch_adapter::find_functions(&why);
  if (functions != nullptr) {
    const WithoutGil release;
    why = torch_adapter::self_test(*functions, layout);
  }
  return why != nullptr ? why : "";
}

py::typing::Tuple<py::int_, py::typing::List<SeenTuple>> torch_observe(
    const py::typing::Callable<py::object()>& work) {
  const torch_adapter::Observed seen = torch_adapter::observe([&work] { work(); });
  py::typing::List<SeenTuple> ops;
  for (const torch_adapter::SeenOp& op : seen.ops)
    ops.append(
        py::make_tuple(op.name, op.scope, op.sequence_nr, op.thread_id, op.forward_thread_id));
  return py::make_tuple(seen.thread_id, ops);
}

using TrialTuple =
    py::typing::Tuple<py::str, py::str, py::typing::List<py::int_>, py::typing::List<py::str>>;

std::optional<torch_adapter::InputLayoutNumbers> torch_known_input_layout(
    const std::string& version, bool cxx11_abi) {
  const torch_adapter::InputLayout* known = torch_adapter::find_input_layout(version, cxx11_abi);
  if (known == nullptr) return std::nullopt;
  return torch_adapter::numbers_of(*known);
}

torch_adapter::InputLayout input_layout(const torch_adapter::InputLayoutNumbers& numbers) {
  torch_adapter::InputLayout layout{};
  if (!torch_adapter::read_numbers(numbers, layout))
    raise<ValueError>("a number of the input layout is out of range");
  return layout;
}

py::typing::List<TrialTuple> torch_try_inputs(const torch_adapter::InputLayoutNumbers& layout,
                                              const py::typing::Callable<py::object()>& work,
                                              uint32_t storage) {
  std::string why;
  const auto tried = torch_adapter::try_inputs(
      input_layout(layout), storage, [&work] { work(); }, &why);
  if (!why.empty()) raise<ValueError>(why);
  py::typing::List<TrialTuple> ops;
  for (const torch_adapter::TriedOp& op : tried) {
    py::typing::List<py::str> texts;
    for (const std::string& text : op.texts)
      texts.append(py::reinterpret_steal<py::str>(PyUnicode_DecodeUTF8(
          text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace")));
    ops.append(py::make_tuple(op.name, op.overload, op.words, texts));
  }
  return ops;
}

void torch_adopt_input_layout(const torch_adapter::InputLayoutNumbers& layout) {
  torch_adapter::adopt_input_layout(input_layout(layout));
}

}  // namespace

void register_torch(py::module_& module) {
  module.def(
      "torch_prepare", &torch_prepare, py::arg("version"), py::arg("cxx11_abi"),
      py::arg("layout") = py::none(),
      "Test whether ops of the loaded libtorch can be observed; return \"\" or the reason why not. "
      "layout: the offsets found by fastprof.adapters.torch.layout, for a version that the table "
      "of layouts does not list.");
  module.def("torch_known_layout", &torch_known_layout, py::arg("version"), py::arg("cxx11_abi"),
             "Return a version's offsets from the table of layouts; None for an unlisted version.");
  module.def(
      "torch_newest_release",
      []() -> py::typing::Tuple<py::int_, py::int_> {
        return py::make_tuple(torch_adapter::kNewestRelease.major,
                              torch_adapter::kNewestRelease.minor);
      },
      "Return (major, minor) of the newest torch release in the tables of layouts.");
  module.def("torch_has_global_callbacks", &torch_adapter::has_global_callbacks,
             "Return whether an observer of all threads' ops may run in the loaded libtorch.");
  module.def("torch_start_observing", &torch_adapter::start_observing, py::arg("inputs") = false,
             py::call_guard<WithoutGil>(),
             "Record ops from now on, with their inputs if `inputs`. Calls are counted: each needs "
             "a torch_stop_observing() with the same argument.");
  module.def("torch_stop_observing", &torch_adapter::stop_observing, py::arg("inputs") = false,
             py::call_guard<WithoutGil>());
  module.def(
      "torch_leave_out_ops_below", &torch_adapter::leave_out_ops_below, py::arg("shortest_ns"),
      py::call_guard<WithoutGil>(),
      "Leave ops that take less out of flight recorders from now on; 0: none. Return False if "
      "the clock does not permit it.");
  module.def("torch_shortest_op_ns", &torch_adapter::shortest_op_ns,
             "Return the duration below which ops are left out; 0: none are.");
  module.def("torch_ops_left_out", &torch_adapter::ops_left_out,
             "Return how many ops were left out in this process, to within 64 a running thread.");
  module.def(
      "torch_pause_ops", &torch_pause_ops, py::arg("paused"),
      "Pause (True) or resume (False) recording of the ops that begin on this thread; return "
      "the previous setting.");
  module.def(
      "torch_take_paused_id", &torch_take_paused_id,
      "Return libtorch's RecordFunction number of the last op that began on this thread while ops "
      "were paused, and forget it; 0 if there was none, or nothing requested numbers.");
  module.def("torch_after_fork_in_child", [] {
    torch_adapter::forget_observers_in_child();
    torch_adapter::forget_module_hierarchy_in_child();
    forget_fast_ranges_in_child();
    forget_torch_holds_in_child();
  });
  module.def(
      "torch_modules_start", &torch_adapter::start_module_hierarchy, py::call_guard<WithoutGil>(),
      "Record the TorchScript modules of ops from now on; return \"\" or the reason why not. "
      "Each successful call needs a torch_modules_stop().");
  module.def("torch_modules_stop", &torch_adapter::stop_module_hierarchy,
             py::call_guard<WithoutGil>());
  module.def(
      "torch_observe_fast_ranges",
      [](const py::object& type) { return observe_fast_ranges(type.ptr()); }, py::arg("type"),
      "Record the ranges of torch._C._profiler._RecordFunctionFast from now on; return \"\" or the "
      "reason why not. Each successful call needs a torch_release_fast_ranges().");
  module.def("torch_release_fast_ranges", &release_fast_ranges,
             "Undo one torch_observe_fast_ranges().");
  module.def("torch_known_input_layout", &torch_known_input_layout, py::arg("version"),
             py::arg("cxx11_abi"),
             "Return a version's input layout in the order of "
             "fastprof.adapters.torch.layout.INPUTS; None for an unlisted version.");
  module.def("torch_try_inputs", &torch_try_inputs, py::arg("layout"), py::arg("work"),
             py::arg("storage") = 0,
             "Call work(), reading inputs by `layout` with every memory access checked, and the "
             "storages of tensors if `storage`, their offset in a tensor, is not 0. Returns "
             "(name, overload, words of inputs, positional texts) of each op it ran; the words are "
             "empty if an access failed. Raises ValueError if libtorch contradicts the layout.");
  module.def("torch_adopt_input_layout", &torch_adopt_input_layout, py::arg("layout"),
             "Read inputs by `layout` from now on. The first adopted layout is kept.");
  module.def("torch_adopt_storage_offset", &torch_adapter::adopt_storage_offset, py::arg("offset"),
             "Read the storages of tensors at this offset while allocations are recorded; 0: do "
             "not.");
  module.def("torch_observe", &torch_observe, py::arg("work"),
             "Call work(); return libtorch's id of this thread and (name, scope, sequence number, "
             "thread, forward thread) of each op it ran.");
  module.def("torch_self_test", &torch_self_test, py::arg("version"), py::arg("cxx11_abi"),
             py::arg("shift") = 0,
             "Run the self-test on a version's layout with the offset of the sequence number moved "
             "by `shift` bytes; return \"\" if it passes, else the reason.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
