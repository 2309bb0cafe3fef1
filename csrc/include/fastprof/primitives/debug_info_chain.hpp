// SPDX-License-Identifier: Apache-2.0
// DebugInfoChain: immutable, shared linked list of (kind, info), one per thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/debug_info_kind.hpp"

FASTPROF_NAMESPACE_BEGIN

class MemoryReportingInfoBase;
class ProfilerStateBase;

// Base class of debug info objects. Derive from it.
class FASTPROF_VISIBLE DebugInfoBase {
 public:
  FASTPROF_HIDDEN DebugInfoBase() = default;
  FASTPROF_HIDDEN DebugInfoBase(const DebugInfoBase&) = default;
  FASTPROF_HIDDEN DebugInfoBase& operator=(const DebugInfoBase&) = default;
  FASTPROF_HIDDEN virtual ~DebugInfoBase() = default;
  // Returns this object as a receiver of memory reports, or null. Replaces dynamic_cast, so that it
  // works without RTTI.
  FASTPROF_HIDDEN virtual MemoryReportingInfoBase* memory_reporting() noexcept { return nullptr; }
  // Returns this object as a profiler that RecordFunctions feed (legacy/profiler_state_base.hpp),
  // or null.
  FASTPROF_HIDDEN virtual ProfilerStateBase* profiler_state() noexcept { return nullptr; }
};

// One node of the list. Immutable once shared, except for the reference count.
struct DebugInfoNode {
  uint64_t references;
  DebugInfoKind kind;
  std::shared_ptr<DebugInfoBase> info;
  DebugInfoNode* parent;  // owned reference
};

// A chain of debug info, newest node first; empty by default. Copies share the nodes. Copying and
// destroying are thread-safe; a node may be allocated by one library and freed by another.
class DebugInfoChain {
 public:
  DebugInfoChain() noexcept = default;
  DebugInfoChain(const DebugInfoChain& other) noexcept : head_(retain(other.head_)) {}
  DebugInfoChain(DebugInfoChain&& other) noexcept : head_(std::exchange(other.head_, nullptr)) {}
  DebugInfoChain& operator=(DebugInfoChain other) noexcept {
    std::swap(head_, other.head_);
    return *this;
  }
  ~DebugInfoChain() { release(head_); }

  bool empty() const noexcept { return head_ == nullptr; }
  explicit operator bool() const noexcept { return head_ != nullptr; }
  friend bool operator==(const DebugInfoChain& a, const DebugInfoChain& b) noexcept {
    return a.head_ == b.head_;
  }
  friend bool operator!=(const DebugInfoChain& a, const DebugInfoChain& b) noexcept {
    return a.head_ != b.head_;
  }

  // Returns the newest info of a kind, or null. Valid while a chain that contains it exists.
  DebugInfoBase* get(DebugInfoKind kind) const noexcept {
    const DebugInfoNode* node = find(head_, kind);
    return node != nullptr ? node->info.get() : nullptr;
  }
  // As get, as a shared pointer.
  std::shared_ptr<DebugInfoBase> get_shared(DebugInfoKind kind) const noexcept {
    const DebugInfoNode* node = find(head_, kind);
    return node != nullptr ? node->info : nullptr;
  }

  // Returns this chain with one more node in front. This chain is unchanged.
  DebugInfoChain with(DebugInfoKind kind, std::shared_ptr<DebugInfoBase> info) const {
    DebugInfoChain longer;
    longer.head_ = new DebugInfoNode{1, kind, std::move(info), retain(head_)};
    return longer;
  }

  // detach gives up ownership of the head; adopt takes ownership; share adds a reference.
  DebugInfoNode* detach() noexcept { return std::exchange(head_, nullptr); }
  static DebugInfoChain adopt(DebugInfoNode* head) noexcept {
    DebugInfoChain chain;
    chain.head_ = head;
    return chain;
  }
  static DebugInfoChain share(DebugInfoNode* head) noexcept { return adopt(retain(head)); }

  static const DebugInfoNode* find(const DebugInfoNode* node, DebugInfoKind kind) noexcept {
    while (node != nullptr && node->kind != kind) node = node->parent;
    return node;
  }

 private:
  static DebugInfoNode* retain(DebugInfoNode* node) noexcept {
    if (node != nullptr) __atomic_fetch_add(&node->references, 1, __ATOMIC_RELAXED);
    return node;
  }
  // Frees nodes in a loop, because recursion would overflow the stack on a long chain.
  // Acquire-release, so that the last owner sees the other owners' accesses as done.
  static void release(DebugInfoNode* node) noexcept {
    while (node != nullptr && __atomic_fetch_sub(&node->references, 1, __ATOMIC_ACQ_REL) == 1) {
      DebugInfoNode* parent = node->parent;
      delete node;
      node = parent;
    }
  }

  DebugInfoNode* head_ = nullptr;
};

FASTPROF_NAMESPACE_END
