// SPDX-License-Identifier: Apache-2.0
// Names of CUDA's devices, contexts and streams that the program gives through NVTX, for the tracks
// of their work. They are kept while nothing records, since programs name objects when they make
// them.
#pragma once

#include <cstdint>
#include <string_view>

#include "backends/nvtx/injection/received_calls.hpp"
#include "backends/nvtx/nvtx_abi.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {

// The calls of NVTX's modules for CUDA's driver and runtime.
extern const ReceivedCall received_cuda_calls[8];
extern const ReceivedCall received_cudart_calls[6];

// Registers a handler for forked children, which renews the lock of the names and, if it was held,
// discards them. Later calls do nothing. Any thread.
void watch_forks_of_object_names() noexcept;

// Keeps the name of a resource that is an object of CUDA; false for all others. Any thread.
bool name_cuda_resource(const ResourceAttributes& resource, std::string_view name) noexcept;

}  // namespace nvtx
FASTPROF_NAMESPACE_END
