// SPDX-License-Identifier: Apache-2.0
// _core's tools that receive ranges from this process (NVTX, ITT), and the emission of ranges to
// them.
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <string>
#include <utility>

#include "adapters/python/gil.hpp"
#include "adapters/torch/ops/op_emission.hpp"
#include "backends/itt/itt_tool.hpp"
#include "backends/nvtx/nvtx_tool.hpp"
#include "bindings/register.hpp"
#include "core/range_emission.hpp"
#include "core/tool_stubs.hpp"
#include "fastprof/base/error.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;
using range_tools::FoundTool;
using range_tools::RangeTool;
using range_tools::ToolKind;

ToolKind kind_of(const std::string& name) {
  if (name == "NVTX") return ToolKind::nvtx;
  if (name == "ITT") return ToolKind::itt;
  raise<ValueError>("unknown kind of tool '" + name + "'. Use 'NVTX' or 'ITT'.");
}

FoundTool find_tool(ToolKind kind) {
  return kind == ToolKind::nvtx ? nvtx::find_tool() : itt::find_tool();
}

// One Python object's emission to a tool. Ranges and ops begin and end separately. Use from one
// thread at a time.
class RangeEmission {
 public:
  explicit RangeEmission(const std::string& name) : kind_(kind_of(name)) {}
  RangeEmission(const RangeEmission&) = delete;
  RangeEmission& operator=(const RangeEmission&) = delete;
  ~RangeEmission() { end(); }

  std::string begin(bool shapes) {
    if (ranges_) return {};
    const WithoutGil release;
    FoundTool found = find_tool(kind_);
    if (found.tool == nullptr) return std::move(found.problem);
    range_tools::start_emitting(kind_, *found.tool, shapes);
    tool_ = found.tool;
    ranges_ = true;
    return {};
  }
  void begin_ops(bool shapes, bool producers) {
    if (!ranges_ || ops_) return;
    const WithoutGil release;
    torch_adapter::start_emitting_ops({text(), tool_->push, tool_->pop, shapes, producers});
    ops_ = true;
  }
  void end() noexcept {
    const WithoutGil release;
    if (std::exchange(ops_, false)) torch_adapter::stop_emitting_ops(text());
    if (std::exchange(ranges_, false)) range_tools::stop_emitting(kind_);
  }

 private:
  torch_adapter::EmittedText text() const noexcept {
    return kind_ == ToolKind::nvtx ? torch_adapter::EmittedText::nvtx
                                   : torch_adapter::EmittedText::name_only;
  }

  const ToolKind kind_;
  const RangeTool* tool_ = nullptr;
  bool ranges_ = false;
  bool ops_ = false;
};

}  // namespace

void register_emission(py::module_& module) {
  const py::call_guard<WithoutGil> without_gil;
  range_tools::register_tool_stubs(ToolKind::nvtx, &nvtx::find_tool);
  range_tools::register_tool_stubs(ToolKind::itt, &itt::find_tool);
  module.def(
      "range_tool_push",
      [](const std::string& name, const std::string& text) {
        const FoundTool found = find_tool(kind_of(name));
        if (found.tool != nullptr) found.tool->push(text.c_str());
      },
      py::arg("kind"), py::arg("text"), without_gil,
      "Push a range of the calling thread to the tool. No effect without a tool.");
  module.def(
      "range_tool_pop",
      [](const std::string& name) {
        const FoundTool found = find_tool(kind_of(name));
        if (found.tool != nullptr) found.tool->pop();
      },
      py::arg("kind"), without_gil, "End the innermost range that this thread pushed.");
  module.def(
      "range_tool_mark",
      [](const std::string& name, const std::string& text) {
        const FoundTool found = find_tool(kind_of(name));
        if (found.tool != nullptr) found.tool->mark(text.c_str());
      },
      py::arg("kind"), py::arg("text"), without_gil, "Mark an instant. No effect without a tool.");
  module.def(
      "torch_try_outputs",
      [](const py::typing::Callable<py::object()>& work) {
        return torch_adapter::try_outputs([&work] { work(); });
      },
      py::arg("work"),
      "Run work() and return, for each op, its name and the addresses of the tensors that it "
      "returned, read with checks. For the self-test of fastprof.adapters.torch.emission.");
  py::class_<RangeEmission>(module, "RangeEmission",
                            "An emission to a tool, from begin() to end(). Use from one thread "
                            "at a time.")
      .def(py::init<const std::string&>(), py::arg("kind"), "kind: \"NVTX\" or \"ITT\".")
      .def("begin", &RangeEmission::begin, py::arg("shapes"),
           "Emit the ranges of all threads; return \"\" or why there is no tool. errors.StateError "
           "if ranges are being emitted to such a tool.")
      .def("begin_ops", &RangeEmission::begin_ops, py::arg("shapes"), py::arg("producers"),
           "Emit torch ops, too; their layout must have been verified. No effect without begin(). "
           "errors.StateError if ops are already being emitted to such a tool.")
      .def("end", &RangeEmission::end, "End both. No effect when called again.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
