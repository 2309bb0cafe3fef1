// SPDX-License-Identifier: Apache-2.0
// Taking our links out of chains of debug info. Chains are shared between threads and cannot be
// unlinked from outside, so a link is retired, by which nobody finds it any more, and dropped when
// its thread next comes by.
#pragma once

#include <memory>

#include "adapters/torch/debug_info_layout.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Any thread.
inline void retire(const DebugInfoFunctions& f, DebugInfoLink& link) noexcept {
  f.set_kind(link, f.own(OwnKind::retired));
}

// Takes retired links off the top of the calling thread's chain. May throw.
inline void drop_retired(const DebugInfoFunctions& f) {
  const DebugInfoKindView retired = f.own(OwnKind::retired);
  for (std::shared_ptr<DebugInfoLink> top = f.current();
       top != nullptr && f.kind_of(*top) == retired; top = f.current())
    f.pop(retired);
}

// Retires the links of the calling thread's chain for which `ours(link)` holds, and drops what is
// on top. True when there was one. May throw.
template <class Ours>
bool retire_from_chain(const DebugInfoFunctions& f, const Ours& ours) {
  bool retired = false;
  for (std::shared_ptr<DebugInfoLink> link = f.current(); link != nullptr; link = link->parent) {
    if (!ours(*link)) continue;
    retire(f, *link);
    retired = true;
  }
  drop_retired(f);
  return retired;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
