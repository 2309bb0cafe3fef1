// SPDX-License-Identifier: Apache-2.0
// fastprof._core: the list of its parts. A new part is one register_*.cpp, one line here and one in
// register.hpp.
#include "bindings/register.hpp"

// The recorder synchronises itself, so the module asks for no GIL in free-threaded builds.
PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  module.doc() = "The native part of fastprof. Private: use the names that `fastprof` exports.";
  fastprof::bindings::register_errors(module);  // first: the others may throw
  fastprof::bindings::register_version(module);
  fastprof::bindings::register_ranges(module);
  fastprof::bindings::register_session(module);
  fastprof::bindings::register_blocks(module);  // a method of Capture
  fastprof::bindings::register_table_capture(module);
  fastprof::bindings::register_table_kernels(module);
  fastprof::bindings::register_propagate(module);
  fastprof::bindings::register_torch(module);
  fastprof::bindings::register_torch_memory(module);
}
