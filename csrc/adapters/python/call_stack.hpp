// SPDX-License-Identifier: Apache-2.0
// CallStack: the traced calls in progress on one thread. A recorded call is one slot of the
// thread's track, like a range, so that calls, ranges and ops nest by their order.
#pragma once

#include <Python.h>

#include <cstdint>
#include <cstdlib>

#include "adapters/python/call_sites.hpp"
#include "adapters/python/thread_name.hpp"
#include "fastprof/recorder/hot_path/range.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// A call in progress.
struct CallEntry {
  const void* key;   // code object, or PyMethodDef of a function written in C; only compared
  Slot* slot;        // null: not recorded
  uint64_t begin;    // of a recorded call, and of one that was on the stack at the start; else 0
  const Site* site;  // null: not recorded
  const CodeInfo* info;  // of the code object of a recorded call, else unknown_code_info
};

// Leaves out the calling thread's calls, for good: a thread of fastprof's own. Call before its
// first recorded call.
void hide_calls_of_this_thread() noexcept;

// Used by its own thread, and by others only while it cannot run Python (GIL).
class CallStack {
 public:
  CallStack() = default;
  ~CallStack() { std::free(base_); }
  CallStack(const CallStack&) = delete;
  CallStack& operator=(const CallStack&) = delete;

  bool empty() const noexcept { return top_ == base_; }
  size_t depth() const noexcept { return static_cast<size_t>(top_ - base_); }
  // The innermost call; only if not empty().
  CallEntry& innermost() const noexcept { return top_[-1]; }
  // The call inside of `depth` others; below depth().
  const CallEntry& at(size_t depth) const noexcept { return base_[depth]; }
  // Whether the innermost call is one into fastprof's own code.
  bool is_in_own_code() const noexcept { return !empty() && innermost().site == &own_call_site; }
  // Whether the innermost call was pushed by begin_marked() with the mark of imports.
  bool is_in_import() const noexcept { return !empty() && innermost().site == &import_inner_site; }

  // Pushes a call that is not recorded and has a mark for its site. Own thread.
  void begin_marked(const void* key, const Site* mark) noexcept {
    begin(key, nullptr);
    if (!empty() && innermost().key == key) innermost().site = mark;
  }

  // Pushes a call. It is recorded if a session requests calls and `site` is not null. line: of the
  // caller (call_lines.hpp), in a slot's bits for it. Own thread.
  // The uncommon cases are tail calls, so that the common one saves no registers.
  FASTPROF_ALWAYS_INLINE void begin(const void* key, const Site* site,
                                    const CodeInfo* info = &unknown_code_info,
                                    uintptr_t line = 0) noexcept {
    if (FASTPROF_UNLIKELY(top_ == limit_)) {
      begin_growing(key, site, info, line);
      return;
    }
    CallEntry* entry = top_++;
    entry->key = key;
    entry->site = site;
    if (FASTPROF_LIKELY(site != nullptr)) {
      entry->info = info;
      State* s = state();
      const uint32_t mask = load_relaxed(&s->mask);
      if (FASTPROF_UNLIKELY((mask & kColdBits) != 0 || track_ == 0)) {
        begin_cold(s, entry, line);
        return;
      }
      ThreadBlock* block = static_thread_block();
      if (FASTPROF_LIKELY((mask & category::python_call) != 0) ||
          (block->mask & category::python_call) != 0) {
        Slot* slot = reserve_here(block, 1);
        if (FASTPROF_UNLIKELY(slot == nullptr)) {
          begin_cold(s, entry, line);  // takes a new chunk
          return;
        }
        entry->slot = slot;
        entry->begin = stamp_slot(slot, 0, reinterpret_cast<uintptr_t>(site) | line);
        return;
      }
    }
    entry->slot = nullptr;
    entry->begin = 0;
    entry->info = &unknown_code_info;
  }

  // Pops the innermost call with this key, and the calls inside it whose ends were not observed.
  // Does nothing if there is none. Returns true if the call is the one that await_end() selected.
  // Own thread.
  FASTPROF_ALWAYS_INLINE bool end(const void* key) noexcept {
    if (FASTPROF_UNLIKELY(top_ == base_ || top_[-1].key != key || refused_ != 0))
      return end_cold(key);
    end_innermost();
    return false;
  }

  // Makes end() return true when the innermost call with this key ends. Returns false if there is
  // no such call, or if another end is awaited. Own thread.
  bool await_end(const void* key) noexcept;

  // Pushes a call that was on the stack when tracing began. `begin`: a stamp that no other call
  // has. Call before the thread's first begin(), outermost call first. Returns false without
  // memory.
  bool add_enclosing(const void* key, const Site* site, const CodeInfo* info,
                     uint64_t begin) noexcept;

  // Records the calls pushed by add_enclosing() that are still in progress, as ending now, or as
  // open if a recorded call is in progress inside of them, and then ignores them. track(): returns
  // the id of the track of the stack's thread, 0 if unknown; called if there are such calls and the
  // thread has recorded none. Any thread.
  template <class TrackId>
  void end_all_enclosing(TrackId track) noexcept {
    if (track_ == 0 && has_enclosing()) track_ = track();
    end_all_enclosing();
  }

 private:
  static constexpr uint32_t kMaxCallsUnnamed = 100;

  // Only if not empty().
  FASTPROF_ALWAYS_INLINE void end_innermost() noexcept {
    CallEntry* entry = --top_;
    if (FASTPROF_LIKELY(entry->slot != nullptr))
      end_open(OpenRange{entry->slot, entry->begin}, entry->site);
    else if (FASTPROF_UNLIKELY(entry->begin != 0))
      end_enclosing(*entry, 0);
  }
  bool is_call_of(const CallEntry& entry, const void* key) const noexcept {
    return entry.key == key || (entry.key == &awaited_ && key == awaited_);
  }

  bool has_enclosing() const noexcept;
  void end_all_enclosing() noexcept;
  bool grow() noexcept;
  void begin_growing(const void* key, const Site* site, const CodeInfo* info,
                     uintptr_t line) noexcept;
  void begin_cold(State* s, CallEntry* entry, uintptr_t line) noexcept;
  bool end_cold(const void* key) noexcept;
  // end: in ticks; 0: the current time; the largest number: open.
  void end_enclosing(const CallEntry& entry, uint64_t end) noexcept;

  CallEntry* base_ = nullptr;
  CallEntry* top_ = nullptr;
  CallEntry* limit_ = nullptr;
  uint32_t track_ = 0;
  uint32_t calls_unnamed_ = 0;  // calls begun while `threading` did not list the thread
  uint32_t refused_ = 0;        // innermost calls not pushed for lack of memory
  // Key of the call whose end is awaited; null: none. Its entry has the address of this member as
  // its key instead, so that its end fails the comparison in end() and takes the uncommon path.
  const void* awaited_ = nullptr;
};

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
