// SPDX-License-Identifier: Apache-2.0
// ThreadLocalDebugInfo and DebugInfoGuard: values attached to a thread that propagate to work it
// launches.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/primitives/debug_info_chain.hpp"
#include "fastprof/primitives/thread_primitives.hpp"

FASTPROF_NAMESPACE_BEGIN

// The debug info of the calling thread: a linked chain of (kind, info), newest first. Propagated
// work (ThreadLocalState, propagate) sees the chain as it was at the launch; later changes on
// either side are not shared. All functions act on the calling thread only.
class ThreadLocalDebugInfo {
 public:
  ThreadLocalDebugInfo() = delete;

  // Returns the newest info of a kind, or null. Valid while it stays in this thread's chain or the
  // caller holds a DebugInfoChain that contains it.
  static DebugInfoBase* get(DebugInfoKind kind) noexcept {
    const ThreadPrimitives* primitives = existing_thread_primitives();
    if (primitives == nullptr) return nullptr;
    const DebugInfoNode* node = DebugInfoChain::find(primitives->debug_info, kind);
    return node != nullptr ? node->info.get() : nullptr;
  }

  // Returns a shared reference to the whole chain.
  static DebugInfoChain current() noexcept {
    const ThreadPrimitives* primitives = existing_thread_primitives();
    return primitives != nullptr ? DebugInfoChain::share(primitives->debug_info) : DebugInfoChain();
  }

  // Replaces the whole chain and returns the former one. At thread exit, after the thread's storage
  // is freed, the new chain is discarded.
  static DebugInfoChain force_current(DebugInfoChain chain) noexcept {
    ThreadPrimitives* primitives =
        chain.empty() ? existing_thread_primitives() : thread_primitives();
    if (primitives == nullptr) return {};
    return DebugInfoChain::adopt(std::exchange(primitives->debug_info, chain.detach()));
  }

  // Pushes an info on the front of the chain. Raises StateError at thread exit, after the thread's
  // storage is freed.
  static void push(DebugInfoKind kind, std::shared_ptr<DebugInfoBase> info) {
    ThreadPrimitives* primitives = thread_primitives();
    if (primitives == nullptr)
      raise<StateError>(
          "the thread's state is already destroyed at thread exit; set debug info earlier");
    DebugInfoChain longer =
        DebugInfoChain::share(primitives->debug_info).with(kind, std::move(info));
    // The new node holds its own reference to the former head.
    (void)DebugInfoChain::adopt(std::exchange(primitives->debug_info, longer.detach()));
  }

  // Pops the front info and returns it. Raises StateError if the chain is empty or its front is of
  // another kind: pushes and pops on one thread must nest.
  static std::shared_ptr<DebugInfoBase> pop(DebugInfoKind kind) {
    DebugInfoNode* front = checked_front(kind, "pop");
    ThreadPrimitives* primitives = existing_thread_primitives();
    std::shared_ptr<DebugInfoBase> info = front->info;
    DebugInfoChain rest = DebugInfoChain::share(front->parent);
    (void)DebugInfoChain::adopt(std::exchange(primitives->debug_info, rest.detach()));
    return info;
  }

  // Returns the front info. Raises StateError as pop does.
  static std::shared_ptr<DebugInfoBase> peek(DebugInfoKind kind) {
    return checked_front(kind, "peek")->info;
  }

 private:
  static DebugInfoNode* checked_front(DebugInfoKind kind, const char* what) {
    ThreadPrimitives* primitives = existing_thread_primitives();
    DebugInfoNode* front = primitives != nullptr ? primitives->debug_info : nullptr;
    if (front == nullptr || front->kind != kind) {
      raise<StateError>("ThreadLocalDebugInfo::" + std::string(what) + "(" +
                        std::string(kind.name()) + "): the newest debug info of this thread is " +
                        (front == nullptr ? "none" : std::string(front->kind.name())) +
                        "; push and pop must nest on one thread");
    }
    return front;
  }
};

// Sets debug info of the calling thread for a scope. Destroy guards in reverse order, on the thread
// that made them. A null info or an empty chain makes a no-op guard.
class DebugInfoGuard {
 public:
  // Pushes one info.
  DebugInfoGuard(DebugInfoKind kind, std::shared_ptr<DebugInfoBase> info) {
    if (info == nullptr) return;
    DebugInfoChain former = ThreadLocalDebugInfo::current();
    ThreadLocalDebugInfo::push(kind, std::move(info));
    former_ = std::move(former);
    active_ = true;
  }
  // Replaces the whole chain.
  explicit DebugInfoGuard(DebugInfoChain chain) noexcept {
    if (chain.empty()) return;
    former_ = ThreadLocalDebugInfo::force_current(std::move(chain));
    active_ = true;
  }
  ~DebugInfoGuard() {
    if (active_) ThreadLocalDebugInfo::force_current(std::move(former_));
  }
  DebugInfoGuard(const DebugInfoGuard&) = delete;
  DebugInfoGuard& operator=(const DebugInfoGuard&) = delete;

 private:
  DebugInfoChain former_;
  bool active_ = false;
};

FASTPROF_NAMESPACE_END
