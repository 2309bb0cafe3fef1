// SPDX-License-Identifier: Apache-2.0
// Version, ABI and build information of the module, for the version test and `fastprof doctor`.
#include <utility>

#include "bindings/register.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

void register_version(pybind11::module_& module) {
  module.attr("version") = FASTPROF_VERSION_STRING;
  module.def(
      "abi_version", [] { return std::pair<int, int>(FASTPROF_ABI_MAJOR, FASTPROF_ABI_MINOR); },
      "Return the ABI version (major, minor) of the recorder that annotated libraries share.");
  module.attr("compiler") =
#if defined(__clang__)
      "clang " __clang_version__;
#else
      "gcc " __VERSION__;
#endif
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
