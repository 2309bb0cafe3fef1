// SPDX-License-Identifier: Apache-2.0
// CallStack's uncommon cases, out of line: see call_stack.hpp.
#include "adapters/python/call_stack.hpp"

#include <limits>
#include <utility>

#include "adapters/python/stack_in_use.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

// Read where a stack has no track yet, which stays so on a hidden thread.
thread_local bool t_hidden = false;

}  // namespace

void hide_calls_of_this_thread() noexcept {
  t_hidden = true;
}

bool CallStack::grow() noexcept {
  const size_t depth = this->depth();
  const size_t capacity = depth == 0 ? 64 : 2 * depth;
  auto* memory = static_cast<CallEntry*>(std::realloc(base_, capacity * sizeof(CallEntry)));
  if (memory == nullptr) {
    ++refused_;
    return false;
  }
  base_ = memory;
  top_ = memory + depth;
  limit_ = memory + capacity;
  return true;
}

void CallStack::begin_growing(const void* key, const Site* site, const CodeInfo* info,
                              uintptr_t line) noexcept {
  if (grow()) begin(key, site, info, line);
}

void CallStack::begin_cold(State* s, CallEntry* entry, uintptr_t line) noexcept {
  const CodeInfo* info = std::exchange(entry->info, &unknown_code_info);
  entry->slot = nullptr;
  entry->begin = 0;
  ThreadBlock* block = thread_block();
  if (t_hidden || !wanted(s, block, category::python_call)) return;
  const StackInUse in_use;  // naming a thread may run Python code
  if (track_ == 0) {
    // A new thread makes some calls before `threading` lists it.
    if (!name_thread() && ++calls_unnamed_ < kMaxCallsUnnamed) {
      // retried at the next call
    } else if (const Track* track = current_track()) {
      track_ = track->id;
    }
  }
  // Neither callbacks nor perf counters: calls are far too many for either.
  Slot* slot = reserve(s, block, 1, category::python_call);
  if (slot == nullptr) return;
  const uint64_t begin =
      stamp_slot_any_clock(s, slot, 0, reinterpret_cast<uintptr_t>(entry->site) | line);
  entry->slot = slot;
  entry->begin = begin_to_keep(s, begin, false);
  entry->info = info;
}

bool CallStack::end_cold(const void* key) noexcept {
  if (refused_ != 0) {
    --refused_;
    return false;
  }
  CallEntry* entry = top_;
  do {
    if (entry == base_) return false;  // the call began before the tracing
    --entry;
  } while (!is_call_of(*entry, key));
  bool awaited = false;
  while (top_ != entry) {
    awaited = awaited || top_[-1].key == &awaited_;
    end_innermost();
  }
  if (awaited) awaited_ = nullptr;
  return awaited;
}

bool CallStack::await_end(const void* key) noexcept {
  if (awaited_ != nullptr) return false;
  for (CallEntry* entry = top_; entry != base_;) {
    if ((--entry)->key != key) continue;
    entry->key = &awaited_;
    awaited_ = key;
    return true;
  }
  return false;
}

bool CallStack::add_enclosing(const void* key, const Site* site, const CodeInfo* info,
                              uint64_t begin) noexcept {
  if (top_ == limit_ && !grow()) {
    refused_ = 0;
    return false;
  }
  *top_++ = CallEntry{key, nullptr, site == nullptr ? 0 : begin, site, info};
  return true;
}

// An appended end without a begin record: {stamp, begin, site} + {track, track, end}.
void CallStack::end_enclosing(const CallEntry& entry, uint64_t end) noexcept {
  State* s = state();
  if (track_ == 0) {
    const Track* track = current_track();
    if (track == nullptr) return;
    name_thread();
    track_ = track->id;
  }
  ThreadBlock* block = thread_block();
  if (!wanted(s, block, category::python_call)) return;
  if (end == 0) end = ticks(s);
  Slot* slot = reserve(s, block, 2, category::python_call);
  if (slot == nullptr) return;
  auto* words = reinterpret_cast<uint64_t*>(slot + 1);
  store_relaxed(&words[0], uint64_t{track_});
  store_relaxed(&words[1], uint64_t{track_});
  store_relaxed(&words[2], end);
  stamp_slot_any_clock(s, slot, entry.begin, site_word(entry.site, RecordTag::late));
}

bool CallStack::has_enclosing() const noexcept {
  for (const CallEntry* entry = base_; entry != top_; ++entry)
    if (entry->slot == nullptr && entry->begin != 0) return true;
  return false;
}

void CallStack::end_all_enclosing() noexcept {
  // A recorded call in progress stays open until its session ends, and so do the calls around it.
  constexpr uint64_t kStillOpen = std::numeric_limits<uint64_t>::max();
  uint64_t end = ticks(state());
  for (CallEntry* entry = top_; entry != base_;) {
    --entry;
    if (entry->slot != nullptr) end = kStillOpen;
    if (entry->slot == nullptr && entry->begin != 0 && track_ != 0) end_enclosing(*entry, end);
    entry->begin = 0;
    entry->info = &unknown_code_info;
  }
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
