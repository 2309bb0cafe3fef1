// SPDX-License-Identifier: Apache-2.0
// Session membership in libtorch's debug info: see torch_propagation.hpp.
#include "adapters/torch/ops/torch_propagation.hpp"

#include <mutex>
#include <new>
#include <unordered_map>

#include "adapters/torch/debug_info/debug_info_links.hpp"
#include "adapters/torch/debug_info/memory_reporter.hpp"
#include "fastprof/base/child_handler.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/primitives/session_propagation.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

// Immutable once it is in a chain.
struct CarriedSessions final : DebugInfoView {
  CarriedSessions(uint64_t number, const LocalSessions& of) : id(number), sessions(of) {}
  uint64_t id;
  LocalSessions sessions;
};

struct Propagations {
  std::mutex lock;
  uint64_t last_id = 0;
  std::unordered_map<uint64_t, std::weak_ptr<DebugInfoLink>> links;
};
Propagations& propagations() noexcept {
  static Propagations& all = *new Propagations;
  return all;
}

// Null until the first propagation. Release in start_propagation; partner: acquire in
// take_up_sessions.
const DebugInfoFunctions* g_functions = nullptr;

}  // namespace

uint64_t start_propagation() {
  const LocalSessions sessions = SessionPropagation::save();
  if (sessions.bits == 0) return 0;
  const DebugInfoFunctions* f = prepared_debug_info();
  if (f == nullptr)
    raise<StateError>("sessions cannot be propagated before prepare_memory() has succeeded");
  Propagations& all = propagations();
  const std::lock_guard<std::mutex> hold(all.lock);
  const uint64_t id = ++all.last_id;
  drop_retired(*f);
  std::weak_ptr<DebugInfoLink>& link = all.links[id];
  f->push(f->own(OwnKind::sessions), std::make_shared<CarriedSessions>(id, sessions));
  link = f->current();
  store_release(&g_functions, f);
  return id;
}

void stop_propagation(uint64_t id) noexcept {
  Propagations& all = propagations();
  try {
    const std::lock_guard<std::mutex> hold(all.lock);
    const auto found = all.links.find(id);
    if (found == all.links.end()) return;
    if (const std::shared_ptr<DebugInfoLink> link = found->second.lock())
      retire(*g_functions, *link);
    all.links.erase(found);
    drop_retired(*g_functions);
  } catch (...) {  // the link stays in the chain, retired
  }
}

void forget_propagation_in_child() noexcept {
  Propagations& all = propagations();
  // Another thread of the parent may have held the lock and been modifying the data it guards.
  renew_lock(all.lock);
  new (&all.links) decltype(all.links);
  if (g_functions == nullptr) return;
  try {
    retire_from_chain(*g_functions, [](const DebugInfoLink& link) {
      return g_functions->kind_of(link) == g_functions->own(OwnKind::sessions);
    });
  } catch (...) {
  }
}

void take_up_sessions(ThreadOps* ops) noexcept {
  const DebugInfoFunctions* f = load_acquire(&g_functions);
  if (f == nullptr) return;
  const auto* carried = static_cast<const CarriedSessions*>(f->get(f->own(OwnKind::sessions)));
  const uint64_t id = carried != nullptr ? carried->id : 0;
  if (id == ops->propagation_id) return;
  SessionPropagation::leave(ops->stay);
  ops->propagation_id = id;
  ops->stay = carried != nullptr ? SessionPropagation::enter(carried->sessions) : SessionStay{};
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
