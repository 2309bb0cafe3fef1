// SPDX-License-Identifier: Apache-2.0
// Taking our links out of chains of debug info. Chains are shared between threads and cannot be
// unlinked from outside, so a link is retired, by which nobody finds it any more, and dropped when
// its thread next comes by.
#pragma once

#include <memory>

#include "adapters/torch/debug_info_layout.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// The kind of retired links.
inline const char retired_kind = 0;

// Any thread: libtorch reads the kind plainly, one aligned word.
inline void retire(DebugInfoLink& link) noexcept {
  __atomic_store_n(&link.kind, DebugInfoKindView{&retired_kind}, __ATOMIC_RELAXED);
}

// Takes retired links off the top of the calling thread's chain. May throw.
inline void drop_retired(const DebugInfoFunctions& f) {
  for (std::shared_ptr<DebugInfoLink> top = f.current();
       top != nullptr && kind_of(*top) == &retired_kind; top = f.current())
    f.pop(&retired_kind);
}

// Retires the links of the calling thread's chain for which `ours(link)` holds, and drops what is
// on top. True when there was one. May throw.
template <class Ours>
bool retire_from_chain(const DebugInfoFunctions& f, const Ours& ours) {
  bool retired = false;
  for (std::shared_ptr<DebugInfoLink> link = f.current(); link != nullptr; link = link->parent) {
    if (!ours(*link)) continue;
    retire(*link);
    retired = true;
  }
  drop_retired(f);
  return retired;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
