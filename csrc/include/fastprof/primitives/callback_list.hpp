// SPDX-License-Identifier: Apache-2.0
// CallbackList: an immutable, shared set of registered callbacks in registration order.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/primitives/callback_failure.hpp"
#include "fastprof/primitives/observer.hpp"

FASTPROF_NAMESPACE_BEGIN

// Calls that let nothing escape, compiled in the library that registers. Used by a library built
// with -fno-exceptions, which cannot catch what another library's callback throws.
struct CallbackInvokers {
  ObserverContext* (*start)(StartCallback, const RecordFunction&) noexcept;
  void (*end)(EndCallback, const RecordFunction&, ObserverContext*) noexcept;
};

FASTPROF_ALWAYS_INLINE ObserverContext* call_start(StartCallback callback,
                                                   const RecordFunction& function) noexcept {
#if FASTPROF_EXCEPTIONS
  try {
    return callback(function).release();
  } catch (const std::exception& error) {
    report_callback_failure(reinterpret_cast<void (*)()>(callback), "start", error.what());
  } catch (...) {
    report_callback_failure(reinterpret_cast<void (*)()>(callback), "start", nullptr);
  }
  return nullptr;
#else
  return callback(function).release();
#endif
}

FASTPROF_ALWAYS_INLINE void call_end(EndCallback callback, const RecordFunction& function,
                                     ObserverContext* context) noexcept {
#if FASTPROF_EXCEPTIONS
  try {
    callback(function, context);
  } catch (const std::exception& error) {
    report_callback_failure(reinterpret_cast<void (*)()>(callback), "end", error.what());
  } catch (...) {
    report_callback_failure(reinterpret_cast<void (*)()>(callback), "end", nullptr);
  }
#else
  callback(function, context);
#endif
}

inline ObserverContext* invoke_start(StartCallback callback,
                                     const RecordFunction& function) noexcept {
  return call_start(callback, function);
}
inline void invoke_end(EndCallback callback, const RecordFunction& function,
                       ObserverContext* context) noexcept {
  call_end(callback, function, context);
}
inline constexpr CallbackInvokers own_invokers{&invoke_start, &invoke_end};

// One registration. The layout is ABI.
struct CallbackEntry {
  StartCallback start;
  EndCallback end;
  const CallbackInvokers* invokers;
  CallbackHandle handle;
  double probability;
  uint16_t scopes;  // bit per RecordScope
  uint8_t needs;    // callback_needs
  uint8_t enabled;
  uint32_t reserved;
};
static_assert(sizeof(CallbackEntry) == 48, "the registration is ABI");

inline CallbackEntry make_callback_entry(const RecordFunctionCallback& callback,
                                         CallbackHandle handle) noexcept {
  return {callback.start(),
          callback.end(),
          &own_invokers,
          handle,
          callback.sampling_probability(),
          callback.scope_bits(),
          callback.needs(),
          1,
          0};
}

// Head of a shared list; the entries follow it, by ascending handle. Never changed once shared.
struct CallbackListBlock {
  uint64_t references;
  uint32_t count;
  uint32_t enabled;  // how many of them are

  CallbackEntry* entries() noexcept { return reinterpret_cast<CallbackEntry*>(this + 1); }
  const CallbackEntry* entries() const noexcept {
    return reinterpret_cast<const CallbackEntry*>(this + 1);
  }
};

// A reference to a list; the empty list is a null pointer. Copies share. Made with malloc, so any
// library may drop the last reference.
class CallbackList {
 public:
  CallbackList() noexcept = default;
  CallbackList(const CallbackList& other) noexcept : block_(retain(other.block_)) {}
  CallbackList(CallbackList&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  CallbackList& operator=(CallbackList other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~CallbackList() { release(block_); }

  static CallbackList adopt(CallbackListBlock* block) noexcept {
    CallbackList list;
    list.block_ = block;
    return list;
  }
  static CallbackList share(CallbackListBlock* block) noexcept { return adopt(retain(block)); }
  CallbackListBlock* detach() noexcept { return std::exchange(block_, nullptr); }

  uint32_t size() const noexcept { return block_ != nullptr ? block_->count : 0; }
  uint32_t enabled() const noexcept { return block_ != nullptr ? block_->enabled : 0; }
  const CallbackEntry* begin() const noexcept {
    return block_ != nullptr ? block_->entries() : nullptr;
  }
  const CallbackEntry* end() const noexcept { return begin() + size(); }

  const CallbackListBlock* block() const noexcept { return block_; }

  // Gives up the reference that an owner elsewhere (a plain pointer) held to what `list` shares.
  static void drop_shared(const CallbackList& list) noexcept { release(list.block_); }

  // Copies with one change, by ascending handle. With an unknown handle: an equal list.
  CallbackList with(const CallbackEntry& added) const {
    CallbackList longer = adopt(allocate(size() + 1));
    CallbackEntry* out = longer.block_->entries();
    const CallbackEntry* next = begin();
    while (next != end() && next->handle < added.handle) *out++ = *next++;
    *out++ = added;
    while (next != end()) *out++ = *next++;
    longer.count_enabled();
    return longer;
  }
  CallbackList without(CallbackHandle handle) const {
    if (!contains(handle)) return *this;
    if (size() == 1) return {};
    CallbackList shorter = adopt(allocate(size() - 1));
    CallbackEntry* out = shorter.block_->entries();
    for (const CallbackEntry& entry : *this)
      if (entry.handle != handle) *out++ = entry;
    shorter.count_enabled();
    return shorter;
  }
  CallbackList with_enabled(CallbackHandle handle, bool on) const {
    if (!contains(handle)) return *this;
    CallbackList changed = adopt(allocate(size()));
    CallbackEntry* out = changed.block_->entries();
    for (const CallbackEntry& entry : *this) {
      *out = entry;
      if (entry.handle == handle) out->enabled = on;
      ++out;
    }
    changed.count_enabled();
    return changed;
  }
  bool contains(CallbackHandle handle) const noexcept {
    for (const CallbackEntry& entry : *this)
      if (entry.handle == handle) return true;
    return false;
  }

 private:
  static CallbackListBlock* allocate(uint32_t count) {
    void* memory = std::malloc(sizeof(CallbackListBlock) + count * sizeof(CallbackEntry));
    if (memory == nullptr) raise<Error>("out of memory for a RecordFunction callback");
    return new (memory) CallbackListBlock{1, count, 0};
  }
  void count_enabled() noexcept {
    uint32_t on = 0;
    for (const CallbackEntry& entry : *this) on += entry.enabled;
    block_->enabled = on;
  }
  static CallbackListBlock* retain(CallbackListBlock* block) noexcept {
    if (block != nullptr) __atomic_fetch_add(&block->references, 1, __ATOMIC_RELAXED);
    return block;
  }
  static void release(CallbackListBlock* block) noexcept {
    if (block != nullptr && __atomic_fetch_sub(&block->references, 1, __ATOMIC_ACQ_REL) == 1)
      std::free(block);
  }

  CallbackListBlock* block_ = nullptr;
};

FASTPROF_NAMESPACE_END
