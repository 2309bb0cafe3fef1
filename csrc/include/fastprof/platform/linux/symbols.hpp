// SPDX-License-Identifier: Apache-2.0
// Sizes of symbols of loaded code, and entries of its unwind tables, on Linux.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstdint>

#include "fastprof/base/config.hpp"

// The compiler runtime's lookup of the table entry (FDE) for a code address; exported by libgcc and
// LLVM's libunwind.
struct fastprof_fde_bases {
  void* text;
  void* data;
  void* function;
};
extern "C" const void* fastprof_find_fde(void* address,
                                         fastprof_fde_bases* bases) __asm__("_Unwind_Find_FDE");

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// The call frame information (an FDE of .eh_frame) of the function at this address, which is stored
// to *function; null if there is none.
inline const void* find_frame_entry(void* address, void** function) noexcept {
  fastprof_fde_bases bases;
  const void* entry = fastprof_find_fde(address, &bases);
  if (entry != nullptr) *function = bases.function;
  return entry;
}

// Size in bytes of the function or object of loaded code whose symbol begins at this address; 0 if
// unknown. Takes the loader's lock.
inline uint64_t symbol_size(const void* address) noexcept {
#ifdef __GLIBC__
  Dl_info where;
  void* entry = nullptr;
  if (::dladdr1(address, &where, &entry, RTLD_DL_SYMENT) == 0 || entry == nullptr ||
      where.dli_saddr != address)
    return 0;
  return static_cast<const ElfW(Sym)*>(entry)->st_size;
#else  // musl has dladdr() only
  static_cast<void>(address);
  return 0;
#endif
}

}  // namespace platform
FASTPROF_NAMESPACE_END
