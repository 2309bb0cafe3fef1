// SPDX-License-Identifier: Apache-2.0
// Sessions that travel with work: see session_travel.hpp.
#include "adapters/torch/session_travel.hpp"

#include <mutex>
#include <new>
#include <unordered_map>

#include "adapters/torch/debug_info_links.hpp"
#include "adapters/torch/memory_reporter.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/primitives/session_propagation.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

// Never changed once it is in a chain.
struct Travel final : DebugInfoView {
  Travel(uint64_t number, const LocalSessions& of) : id(number), sessions(of) {}
  uint64_t id;
  LocalSessions sessions;
};

struct Travels {
  std::mutex lock;
  uint64_t last_id = 0;
  std::unordered_map<uint64_t, std::weak_ptr<DebugInfoLink>> links;
};
Travels& travels() noexcept {
  static Travels& all = *new Travels;
  return all;
}

// Null until the first travel. Release in start_travel, acquire in take_up_sessions.
const DebugInfoFunctions* g_functions = nullptr;

}  // namespace

uint64_t start_travel() {
  const LocalSessions sessions = SessionPropagation::save();
  if (sessions.bits == 0) return 0;
  const DebugInfoFunctions* f = prepared_debug_info();
  if (f == nullptr)
    raise<StateError>("sessions cannot travel before prepare_memory() has succeeded");
  Travels& all = travels();
  const std::lock_guard<std::mutex> hold(all.lock);
  const uint64_t id = ++all.last_id;
  drop_retired(*f);
  std::weak_ptr<DebugInfoLink>& link = all.links[id];
  f->push(f->own(OwnKind::travel), std::make_shared<Travel>(id, sessions));
  link = f->current();
  store_release(&g_functions, f);
  return id;
}

void stop_travel(uint64_t travel) noexcept {
  Travels& all = travels();
  try {
    const std::lock_guard<std::mutex> hold(all.lock);
    const auto found = all.links.find(travel);
    if (found == all.links.end()) return;
    if (const std::shared_ptr<DebugInfoLink> link = found->second.lock())
      retire(*g_functions, *link);
    all.links.erase(found);
    drop_retired(*g_functions);
  } catch (...) {  // it stays in the chain, and nobody finds it
  }
}

void forget_travels_in_child() noexcept {
  Travels& all = travels();
  // Another thread of the parent may have held the lock, and changed what it guards.
  new (&all.lock) std::mutex;
  new (&all.links) decltype(all.links);
  if (g_functions == nullptr) return;
  try {
    retire_from_chain(*g_functions, [](const DebugInfoLink& link) {
      return g_functions->kind_of(link) == g_functions->own(OwnKind::travel);
    });
  } catch (...) {
  }
}

void take_up_sessions(ThreadOps* ops) noexcept {
  const DebugInfoFunctions* f = load_acquire(&g_functions);
  if (f == nullptr) return;
  const auto* travel = static_cast<const Travel*>(f->get(f->own(OwnKind::travel)));
  const uint64_t id = travel != nullptr ? travel->id : 0;
  if (id == ops->travel) return;
  SessionPropagation::leave(ops->stay);
  ops->travel = id;
  ops->stay = travel != nullptr ? SessionPropagation::enter(travel->sessions) : SessionStay{};
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
