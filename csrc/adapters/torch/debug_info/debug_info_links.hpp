// SPDX-License-Identifier: Apache-2.0
// Removes fastprof's links from debug info chains. Chains are shared between threads and cannot be
// unlinked from outside. A link is therefore retired (its kind is changed to one that is never
// looked up), and removed the next time its thread pushes or drops links.
#pragma once

#include <memory>

#include "adapters/torch/debug_info/debug_info_layout.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Makes a link invisible to lookups. Any thread.
inline void retire(const DebugInfoFunctions& f, DebugInfoLink& link) noexcept {
  f.set_kind(link, f.own(OwnKind::retired));
}

// Pops retired links off the top of the calling thread's chain. May throw.
inline void drop_retired(const DebugInfoFunctions& f) {
  const DebugInfoKindView retired = f.own(OwnKind::retired);
  for (std::shared_ptr<DebugInfoLink> top = f.current();
       top != nullptr && f.kind_of(*top) == retired; top = f.current())
    f.pop(retired);
}

// Retires the links of the calling thread's chain for which `ours(link)` is true, and pops retired
// links off the top. Returns true if there were any. May throw.
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
