// SPDX-License-Identifier: Apache-2.0
// The functions that replace NVTX's, one for each call of its core interface.
#pragma once

#include <cstdint>

#include "backends/nvtx/nvtx_abi.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {

struct ReceivedCall {
  uint32_t id;  // of its module: core::Id, core2::Id, cuda::Id or cudart::Id
  FunctionPointer function;
};

template <class Function>
FunctionPointer pointer_to(Function* function) noexcept {
  return reinterpret_cast<FunctionPointer>(function);
}

extern const ReceivedCall received_core_calls[15];
extern const ReceivedCall received_domain_calls[15];

}  // namespace nvtx
FASTPROF_NAMESPACE_END
