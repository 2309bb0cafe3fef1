// SPDX-License-Identifier: Apache-2.0
// A double of librocprofiler-register after HIP has started: it lists the libraries that have.
#include "backends/rocm/rocprofiler_abi.hpp"

extern "C" __attribute__((visibility("default"))) int
rocprofiler_register_iterate_registration_info(fastprof::rocm::EachRegistration each, void* data) {
  fastprof::rocm::RegistrationInfo info{sizeof info, "hsa", 10000, 1};
  return each(&info, data) != 0 ? 0 : 0;
}
