// SPDX-License-Identifier: Apache-2.0
// Records what CPython's three allocator domains (raw, mem, object) allocate and free.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Starts recording allocations of CPython's three domains, for one more user; each call needs an
// end_allocations(). The first call installs hooks above the current allocators
// (PyMem_SetAllocator). Blocks are recorded under the sites "[memory]", whose function is
// "python:raw", "python:mem" or "python:object". A block that one domain takes from another is
// recorded once, in the domain that was called. Not recorded: blocks of 0 bytes, and frees of
// blocks that were allocated before. exact: record each block; otherwise a sample of them, under
// sites whose function is "python:raw (sampled)" and so on (allocation_sampler.hpp). While users
// ask for both, each block is recorded. Requires the GIL.
void begin_allocations(bool exact) noexcept;

// Stops recording for one user; the last call restores the allocators that begin_allocations()
// found. Returns the domains whose hooks another tool has removed meanwhile ("raw, object"); empty
// if none. A hook that another tool has wrapped stays installed below it and only forwards calls.
// exact: as at its begin. Requires the GIL.
std::string end_allocations(bool exact);

// While on, allocations of the calling thread are the profiler's own and not recorded; frees of
// recorded blocks still are. Returns the previous value. Any thread.
bool leave_out_allocations(bool on) noexcept;

// Returns the number of blocks that were not recorded, because there was no memory for their
// entries, since the first begin_allocations(). Any thread.
uint64_t untracked_allocations() noexcept;

// Call in a forked child: removes the parent's users and restores the allocators that
// begin_allocations() found. Requires the GIL.
void forget_allocations_in_child() noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
