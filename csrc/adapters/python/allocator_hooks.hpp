// SPDX-License-Identifier: Apache-2.0
// Records what CPython's three allocator domains (raw, mem, object) allocate and free.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Puts hooks in front of the allocators in place (PyMem_SetAllocator), once however often it is
// called: from now on, blocks are recorded under the sites "[memory]" with the function
// "python:raw", "python:mem" or "python:object". A block that a domain takes from another one is
// recorded once, in the domain that was called. Blocks of 0 bytes are not recorded, nor are frees
// of blocks from before. GIL. Each call needs an end_allocations().
void begin_allocations() noexcept;

// Ends what one begin_allocations() began; the last one restores the allocators that it found.
// Returns which domains another tool took away from the hooks meanwhile ("raw, object"); empty for
// none. Hooks that another tool has wrapped stay below it and only pass calls on. GIL.
std::string end_allocations();

// While on, allocations of the calling thread are left out, as the profiler's own; frees of
// recorded blocks are recorded. Returns the former value.
bool leave_out_allocations(bool on) noexcept;

// Blocks that could not be recorded since the first begin_allocations(), for lack of memory for
// their entries.
uint64_t untracked_allocations() noexcept;

// In a forked child: nobody records; the allocators found at the begin are restored. GIL.
void forget_allocations_in_child() noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
