// SPDX-License-Identifier: Apache-2.0
// Thread-local slots: users' thread-local values that propagate with a ThreadLocalState snapshot.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/process_primitives.hpp"

FASTPROF_NAMESPACE_BEGIN

// Identifies a registered slot.
using SlotHandle = uint64_t;
constexpr SlotHandle kInvalidSlotHandle = 0;

// Accessors of one slot: capture() reads the calling thread's value, restore() sets it.
class ThreadLocalSlot {
 public:
  virtual ~ThreadLocalSlot() = default;
  virtual std::shared_ptr<const void> capture() const = 0;
  virtual void restore(const std::shared_ptr<const void>& value) const = 0;
};

// Registry of slots, reached through ProcessPrimitives::slots and guarded by its lock.
struct SlotRegistryBlock {
  struct Entry {
    SlotHandle handle;
    std::shared_ptr<const ThreadLocalSlot> slot;
  };
  std::vector<Entry> entries;
};

namespace slots_detail {

template <class Get, class Set>
class CallableSlot final : public ThreadLocalSlot {
 public:
  using Stored = std::decay_t<std::invoke_result_t<const Get&>>;
  CallableSlot(Get get, Set set) : get_(std::move(get)), set_(std::move(set)) {}
  std::shared_ptr<const void> capture() const override {
    return std::make_shared<const Stored>(get_());
  }
  void restore(const std::shared_ptr<const void>& value) const override {
    set_(*static_cast<const Stored*>(value.get()));
  }

 private:
  Get get_;
  Set set_;
};

using Entries = std::vector<SlotRegistryBlock::Entry>;

inline Entries registered() {
  ProcessPrimitives* process = existing_process_primitives();
  if (process == nullptr || load_acquire(&process->slots) == nullptr) return {};
  PrimitivesLock lock(process);
  return process->slots->entries;
}

}  // namespace slots_detail

// Registers a value to propagate with every ThreadLocalState. get() returns the calling thread's
// value (a copyable type); set(value) sets it. Both are called on the thread that takes or enters a
// snapshot, without locks held. Returns a handle. Any thread. Unregister before the library that
// contains get and set is unloaded.
template <class Get, class Set>
inline SlotHandle register_thread_local_slot(Get get, Set set) {
  auto slot =
      std::make_shared<const slots_detail::CallableSlot<Get, Set>>(std::move(get), std::move(set));
  ProcessPrimitives* process = process_primitives();
  const SlotHandle handle = 1 + __atomic_fetch_add(&process->next_slot_handle, 1, __ATOMIC_RELAXED);
  auto fresh = std::make_unique<SlotRegistryBlock>();
  PrimitivesLock lock(process);
  if (process->slots == nullptr) store_release(&process->slots, fresh.release());
  process->slots->entries.push_back({handle, std::move(slot)});
  return handle;
}

// Unregisters a slot: later snapshots omit it and earlier ones no longer restore it. Returns false
// if the handle is unknown. Any thread.
inline bool unregister_thread_local_slot(SlotHandle handle) {
  ProcessPrimitives* process = existing_process_primitives();
  if (process == nullptr) return false;
  std::shared_ptr<const ThreadLocalSlot> removed;  // destroyed after the lock is released
  PrimitivesLock lock(process);
  if (process->slots == nullptr) return false;
  auto& entries = process->slots->entries;
  for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
    if (entry->handle != handle) continue;
    removed = std::move(entry->slot);
    entries.erase(entry);
    return true;
  }
  return false;
}

FASTPROF_NAMESPACE_END
