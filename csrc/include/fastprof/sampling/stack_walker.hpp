// SPDX-License-Identifier: Apache-2.0
// StackWalker: finds the frames of a copied stack by the unwind tables, on another thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/payload/native_stack/cpp_stack.hpp"
#include "fastprof/payload/native_stack/unwind_rule.hpp"
#include "fastprof/platform/common/copied_stack.hpp"
#include "fastprof/sampling/code_ranges.hpp"

FASTPROF_NAMESPACE_BEGIN

// Frames of a walk, as return addresses: the first one is the instruction that was interrupted
// plus 1, so that all are symbolised alike.
struct WalkedStack {
  uint32_t count;
  bool truncated;  // outer frames are missing
  bool cut;        // because the copy ended
  uintptr_t high;  // where the outermost frame ends; 0: not reached
};

// Use from one thread. Code without tables (assembly, stubs of the linker, generated code, handlers
// of signals) is crossed by a search of the stack for a return address from which the tables lead
// to the thread's start.
class StackWalker {
 public:
  // Takes the loader's lock; call while no thread is stopped, and with a ForkHold.
  void refresh() { code_.refresh(); }

  WalkedStack walk(const platform::CopiedStack& stack, uint64_t* frames,
                   uint32_t capacity) const noexcept {
    WalkedStack walked{};
    Cursor at{stack.at.pc + 1, stack.at.sp, stack.at.fp, stack.at.has_fp};
    if (capacity == 0 || !code_.contains(stack.at.pc)) {
      // A call to an invalid address, or generated code.
      if (capacity != 0) frames[walked.count++] = at.pc;
      if (!search(stack, &at, capacity)) return ended(walked, false);
    }
    for (bool is_innermost = true; walked.count < capacity; is_innermost = false) {
      frames[walked.count++] = at.pc;
      const Cursor inner = at;
      Step step = next(stack, &at);
      if (step == Step::unknown) {
        at = inner;
        step = (is_innermost && link(stack, &at)) || search(stack, &at, capacity) ? Step::found
                                                                                  : Step::unknown;
      }
      if (step == Step::outermost) {
        walked.high = at.sp;
        return walked;
      }
      if (step != Step::found) return ended(walked, step == Step::cut);
    }
    return ended(walked, false);
  }

 private:
  static constexpr size_t kSearchedWords = 1024;

  struct Cursor {
    uintptr_t pc, sp, fp;
    bool has_fp;
  };
  enum class Step : uint8_t { found, outermost, cut, unknown };

  static WalkedStack ended(WalkedStack walked, bool cut) noexcept {
    walked.truncated = true;
    walked.cut = cut;
    return walked;
  }

  static bool load(const platform::CopiedStack& stack, uintptr_t address,
                   uintptr_t* word) noexcept {
    const uintptr_t offset = address - stack.at.sp;
    if (address % sizeof *word != 0 || offset >= stack.size_bytes ||
        stack.size_bytes - offset < sizeof *word)
      return false;
    std::memcpy(word, stack.bytes + offset, sizeof *word);
    return true;
  }

  // Goes to the caller.
  Step next(const platform::CopiedStack& stack, Cursor* at) const noexcept {
    const UnwindRule rule = CodeRanges::rule(at->pc);
    if (rule.cfa == UnwindRule::Cfa::outermost) return Step::outermost;
    if (rule.cfa == UnwindRule::Cfa::unsupported) return Step::unknown;
    uintptr_t cfa = at->sp + rule.cfa_offset;
    if (rule.cfa != UnwindRule::Cfa::stack_pointer) {
      if (!at->has_fp) return Step::unknown;
      cfa = at->fp + rule.cfa_offset;
      if (rule.cfa == UnwindRule::Cfa::saved_in_frame &&
          !load(stack, at->fp - rule.cfa_offset, &cfa))
        return Step::unknown;
    }
    if (cfa <= at->sp || cfa % sizeof(uintptr_t) != 0) return Step::unknown;
    uintptr_t pc = 0;
    if (cfa - stack.at.sp > stack.size_bytes) return Step::cut;
    if (!load(stack, cfa - rule.return_address_below_cfa, &pc)) return Step::unknown;
    if (rule.frame_pointer_saved) {
      const uintptr_t slot =
          rule.cfa == UnwindRule::Cfa::saved_in_frame ? at->fp : cfa - rule.frame_pointer_below_cfa;
      if (!load(stack, slot, &at->fp)) return Step::unknown;
      at->has_fp = true;
    }
    at->pc = plain_code_address(pc);
    at->sp = cfa;
    if (at->pc == 0) return Step::outermost;
    return code_.contains(at->pc - 1) ? Step::found : Step::unknown;
  }

  // aarch64: the caller of a function that has saved nothing yet, by the link register.
  bool link(const platform::CopiedStack& stack, Cursor* at) const noexcept {
    const uintptr_t caller = plain_code_address(stack.at.link);
    if (caller == 0 || !code_.contains(caller - 1)) return false;
    at->pc = caller;
    return leads_to_start(stack, *at, 256);
  }

  bool leads_to_start(const platform::CopiedStack& stack, Cursor at,
                      uint32_t capacity) const noexcept {
    for (uint32_t i = 0; i < capacity; ++i) {
      const Step step = next(stack, &at);
      if (step != Step::found) return step == Step::outermost || (step == Step::cut && i != 0);
    }
    return true;
  }

  bool search(const platform::CopiedStack& stack, Cursor* at, uint32_t capacity) const noexcept {
    for (size_t i = 0; i < kSearchedWords; ++i) {
      const uintptr_t slot = at->sp + i * sizeof(uintptr_t);
      uintptr_t word = 0;
      if (!load(stack, slot, &word)) return false;
      const uintptr_t pc = plain_code_address(word);
      if (pc == 0 || !code_.contains(pc - 1)) continue;
      Cursor found{pc, slot + sizeof(uintptr_t), at->fp, at->has_fp};
#if defined(__aarch64__)
      // The frame pointer lies below the return address, and both at the bottom of the frame.
      uintptr_t fp = 0;
      if (load(stack, slot - sizeof(uintptr_t), &fp)) found = {pc, fp, fp, true};
#else
      uintptr_t fp = 0;
      const bool is_stack = load(stack, slot - sizeof(uintptr_t), &fp) && fp > slot &&
                            fp - stack.at.sp < stack.size_bytes;
      if (!at->has_fp && is_stack) found = {pc, slot + sizeof(uintptr_t), fp, true};
#endif
      if (found.sp <= at->sp || !leads_to_start(stack, found, capacity)) continue;
      *at = found;
      return true;
    }
    return false;
  }

  CodeRanges code_;
};

FASTPROF_NAMESPACE_END
