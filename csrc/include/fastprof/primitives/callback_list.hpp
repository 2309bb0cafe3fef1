// SPDX-License-Identifier: Apache-2.0
// CallbackList: an immutable, shared set of registered callbacks in registration order.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/primitives/observer.hpp"
#include "fastprof/primitives/process_primitives.hpp"

FASTPROF_NAMESPACE_BEGIN

// Reports an exception thrown by a RecordFunction callback: once per callback, on stderr.

// Records that `callback` failed. Returns true if its failure has not been reported before; false
// also when the table of kMaxReportedFailures callbacks is full. Any thread; takes the primitives
// lock.
inline bool first_callback_failure(void (*callback)()) noexcept {
  ProcessPrimitives* process = process_primitives();
  PrimitivesLock lock(process);
  for (uint32_t i = 0; i < process->reported_count; ++i)
    if (process->reported[i] == callback) return false;
  if (process->reported_count == kMaxReportedFailures) return false;
  process->reported[process->reported_count++] = callback;
  return true;
}

// Prints to stderr that `callback` threw. `where`: "start" or "end"; `what`: the exception's text,
// or null if it is not a std::exception. The profiled code is not affected. Any thread.
FASTPROF_COLD inline void report_callback_failure(void (*callback)(), const char* where,
                                                  const char* what) noexcept {
  if (!first_callback_failure(callback)) return;
  std::fprintf(stderr,
               "fastprof: a RecordFunction %s callback threw%s%s; it was caught, and further "
               "exceptions of this callback are not reported\n",
               where, what != nullptr ? ": " : " an exception not derived from std::exception",
               what != nullptr ? what : "");
}

// Functions that call a callback and catch everything it throws. Each library that registers a
// callback provides its own pair, so that a leader built with -fno-exceptions, which cannot catch,
// can call callbacks of other libraries.
struct CallbackInvokers {
  ObserverContext* (*start)(StartCallback, const RecordFunction&) noexcept;
  void (*end)(EndCallback, const RecordFunction&, ObserverContext*) noexcept;
};

// Calls a start callback; an exception is caught and reported, and the result is then null.
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

// Calls an end callback; an exception is caught and reported.
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

// One registered callback. The layout is ABI.
struct CallbackEntry {
  StartCallback start;
  EndCallback end;
  const CallbackInvokers* invokers;
  CallbackHandle handle;
  double probability;
  uint16_t scopes;  // bit per RecordScope
  uint8_t needs;    // OR of callback_needs
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

// Header of a shared list. The entries follow it in memory, by ascending handle. Immutable once
// shared, except for the reference count.
struct CallbackListBlock {
  uint64_t references;
  uint32_t count;
  uint32_t enabled;  // number of enabled entries

  CallbackEntry* entries() noexcept { return reinterpret_cast<CallbackEntry*>(this + 1); }
  const CallbackEntry* entries() const noexcept {
    return reinterpret_cast<const CallbackEntry*>(this + 1);
  }
};

// Shared reference to an immutable list; a null pointer is the empty list. Copying increments the
// reference count. Blocks are allocated with malloc, so any library may drop the last reference.
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

  // Releases the reference that some other owner (a plain pointer) held to the block of `list`.
  static void drop_shared(const CallbackList& list) noexcept { release(list.block_); }

  // Return a copy with one change; entries stay in ascending handle order. If the handle is
  // unknown, the result equals this list. They raise Error if memory is exhausted.
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
