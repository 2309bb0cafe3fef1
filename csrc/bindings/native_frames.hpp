// SPDX-License-Identifier: Apache-2.0
// Native frames in Python stacks: classification of addresses, and their text.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/payload/native_stack/join_stacks.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// Finds the address ranges of the interpreter's, fastprof's and the C library's code. Call before
// native_frame_kind(), with the GIL; later calls do nothing.
void find_own_code();

// Classifies a return address. Any thread, no lock.
NativeFrame native_frame_kind(uint64_t return_address) noexcept;

// Resolves addresses, so that native_frame_text() finds them in a cache. Reads symbol tables: up to
// a second for a large library, at its first address. Any thread, without the GIL.
void resolve_native_frames(const std::vector<uint64_t>& return_addresses);

// Returns "function (libx.so)", without parameters, "libx.so+0x1234" or "0x7f...". Any thread.
std::string native_frame_text(uint64_t return_address);

// Returns the function, "[unknown]" if the symbol tables lack it, and the path of its library;
// empty if the address is in none. Any thread.
std::pair<std::string, std::string> native_frame_names(uint64_t return_address);

// Frees the symbols that were read. Any thread.
void release_native_frames();

// In a forked child: another thread of the parent may have been resolving addresses.
void forget_native_frames_in_child();

}  // namespace bindings
FASTPROF_NAMESPACE_END
