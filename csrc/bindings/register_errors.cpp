// SPDX-License-Identifier: Apache-2.0
// Translates fastprof::Error and its subclasses to the Python classes of the same names in
// fastprof/base/errors.py.
#include <array>
#include <cstddef>
#include <string>

#include "bindings/python_name.hpp"
#include "bindings/register.hpp"
#include "fastprof/base/error.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// Most derived first, because the first match is raised.
inline constexpr std::array<const char*, 6> kErrorNames = {
    "StateError", "ValueError", "UnavailableError", "IoError", "FormatError", "Error"};

// The Python classes, in the same order; borrowed from fastprof.base.errors, which is never
// unloaded.
inline std::array<PyObject*, kErrorNames.size()> error_classes{};

inline void set_error(size_t index, const Error& error) {
  // Messages name paths, which may be any bytes.
  py::set_error(error_classes[index], str_of(error.what()));
}

inline void translate_error(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const StateError& error) {
    set_error(0, error);
  } catch (const ValueError& error) {
    set_error(1, error);
  } catch (const UnavailableError& error) {
    set_error(2, error);
  } catch (const IoError& error) {
    set_error(3, error);
  } catch (const FormatError& error) {
    set_error(4, error);
  } catch (const Error& error) {
    set_error(5, error);
  }
}

void register_errors(py::module_& module) {
  const py::module_ errors = py::module_::import("fastprof.base.errors");
  for (size_t i = 0; i < kErrorNames.size(); ++i) {
    error_classes[i] = errors.attr(kErrorNames[i]).ptr();
  }
  py::register_local_exception_translator(translate_error);

  module.def(
      "throw_error",
      [](const std::string& name, const std::string& message) {
        if (name == "StateError") raise<StateError>(message);
        if (name == "ValueError") raise<ValueError>(message);
        if (name == "UnavailableError") raise<UnavailableError>(message);
        if (name == "IoError") raise<IoError>(message);
        if (name == "FormatError") raise<FormatError>(message);
        raise<Error>(message);
      },
      py::arg("name"), py::arg("message"),
      "Throw the C++ error `name` (Error for an unknown name), to test the mapping to Python.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
